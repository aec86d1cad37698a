"""Certificates that are revoked and keys that are withdrawn while clients are connected."""

import json
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import IO

import grpc
import pytest

from penstock import metrics
from penstock.access.dev_certificates import DevCertificates
from penstock.clock import SYSTEM
from penstock.database.migrations import migrate
from penstock.log.store import open_store
from penstock.wire.kafka.apis.topics import METADATA
from tests.access.doors import DOORS, IN, OUT, HttpDoor, KafkaDoor
from tests.access.house import AUDIENCE, ISSUER, OTHER_RSA, House, token
from tests.access.key_server import KeyServer, jwks
from tests.access.revoking import HOUR, revoke
from tests.access.test_grpc import code_of, connected
from tests.unit.cli.program import penstock

SECONDS = 60


@pytest.fixture
def still(tmp_path: Path) -> Iterator[House]:
    """Give a house that looks at its files when it is told to."""
    with House(tmp_path, look=5) as made:
        yield made


def status(connection: HTTPSConnection) -> int:
    connection.request("GET", "/v1/topics/orders")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_connections_of_a_certificate_that_is_revoked_end_and_others_go_on(still: House) -> None:
    host, _, port = still.http.address.rpartition(":")
    http = HTTPSConnection(host, int(port), context=still.context("ana"), timeout=SECONDS)
    kafka, other = KafkaDoor().connect(still, "ana"), KafkaDoor().connect(still, "stranger")
    with kafka, other, KafkaDoor().connect(still, "ana") as logged_in:
        assert status(http) == 200
        assert logged_in.sasl("OAUTHBEARER", f"n,,\x01auth=Bearer {token(sub='ben')}\x01\x01".encode()) == 0
        for each in (kafka, other):
            assert each.ask(METADATA, {"topics": []}, 1)["brokers"]
        revoke(still.certificates, "ana")
        still.lock._watch.look()
        assert status(http) == 401, "the connection is kept, and what it shows does not hold"
        assert kafka.receive() == b""
        assert logged_in.receive() == b"", "a token is shown beside the certificate, not in its place"
        assert other.ask(METADATA, {"topics": []}, 1)["brokers"]
    http.close()
    for door in (KafkaDoor(), HttpDoor()):
        assert (door.certificate(still, "ana"), door.certificate(still, "stranger")) == (OUT, IN)
    lines = [each for each in still.audit() if "is revoked" in each.get("reason", "")]
    assert {each["door"] for each in lines} == {"http"}  # a handshake that fails is said in the log


def test_a_stream_and_calls_over_grpc_end_with_their_certificate(tmp_path: Path) -> None:
    with House(tmp_path, client_certificates="required", look=5) as own, connected(own, client="ana") as ana:
        assert code_of(ana, "Consuming.Read", topic="orders") is grpc.StatusCode.OK
        subscriber = ana.subscribe("orders", "orders-mailer")
        revoke(own.certificates, "ana")
        own.lock._watch.look()
        with pytest.raises(grpc.RpcError) as caught:
            list(subscriber.answers)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert code_of(ana, "Consuming.Read", topic="orders") is grpc.StatusCode.UNAUTHENTICATED
        for each in DOORS:
            if hasattr(each, "certificate"):
                assert each.certificate(own, "ana") == OUT


def test_a_list_that_cannot_be_used_changes_nothing_and_says_so(still: House, caplog: pytest.LogCaptureFixture) -> None:
    revoke(still.certificates, "ana")
    still.lock._watch.look()
    for write in (
        lambda: revoke(still.certificates, begins=-2 * HOUR, ends=-HOUR),
        lambda: (still.certificates / "crl.pem").write_text("half a li"),
        lambda: (still.certificates / "crl.pem").unlink(),
    ):
        write()
        caplog.clear()
        still.lock._watch.look()
        assert metrics.ACCESS_STALE.values()[("tls",)] == 1
        assert str(still.certificates / "crl.pem") in caplog.text
        for door in (KafkaDoor(), HttpDoor()):
            assert (door.certificate(still, "ana"), door.certificate(still, "stranger")) == (OUT, IN)
    revoke(still.certificates, "stranger")
    still.lock._watch.look()
    assert metrics.ACCESS_STALE.values()[("tls",)] == 0
    for door in (KafkaDoor(), HttpDoor()):
        assert (door.certificate(still, "ana"), door.certificate(still, "stranger")) == (IN, OUT)


class Served:
    """A process of its own that serves HTTP."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder, self._address = folder, address

    def status(self, client: str | None = None, bearer: str | None = None) -> int:
        """Return how a client is answered; 0 if the handshake fails."""
        context = ssl.create_default_context(cafile=str(self._folder / "ca.pem"))
        if client is not None:
            context.load_cert_chain(self._folder / f"{client}.pem", self._folder / f"{client}.key")
        host, _, port = self._address.rpartition(":")
        connection = HTTPSConnection(host, int(port), context=context, timeout=SECONDS)
        try:
            headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
            connection.request("GET", "/v1/topics", headers=headers)
            return connection.getresponse().status
        except (OSError, HTTPException):
            return 0
        finally:
            connection.close()

    def becomes(self, wanted: int, client: str | None = None, bearer: str | None = None) -> bool:
        """Ask again until that is the answer."""
        until = SYSTEM.monotonic() + SECONDS
        while SYSTEM.monotonic() < until:
            if self.status(client, bearer) == wanted:
                return True
        return False


@contextmanager
def served(folder: Path, *words: str, log: IO[str], **environ: str) -> Iterator[Served]:
    command = penstock("serve", "--url", f"sqlite:///{folder}/shop.db", "--http", "127.0.0.1:0", *words)
    command += ["--tls-cert", f"{folder}/server.pem", "--tls-key", f"{folder}/server.key"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | environ)
    assert process.stdout is not None
    try:
        yield Served(folder, process.stdout.readline().rpartition(" ")[2].strip())
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give certificates and a store."""
    DevCertificates(tmp_path).make(["ana", "ben"])
    store = open_store(f"sqlite:///{tmp_path}/shop.db")
    migrate(store.database)
    store.close()
    return tmp_path


def test_serve_takes_up_a_list_of_revoked_certificates_while_it_runs(folder: Path) -> None:
    words = ("--tls-client-ca", f"{folder}/ca.pem", "--tls-client-crl", str(revoke(folder)))
    with (folder / "log").open("w") as log, served(folder, *words, log=log) as server:
        assert (server.status("ana"), server.status("ben")) == (200, 200)
        revoke(folder, "ana")
        assert server.becomes(0, "ana")
        assert server.status("ben") == 200
    assert "certificate revoked" in (folder / "log").read_text()


def test_serve_does_not_start_with_a_list_that_has_run_out(folder: Path) -> None:
    path = revoke(folder, begins=-2 * HOUR, ends=-HOUR)
    words = ["--tls-client-ca", f"{folder}/ca.pem", "--tls-client-crl", str(path)]
    command = penstock("serve", "--url", f"sqlite:///{folder}/shop.db", "--kafka", "127.0.0.1:0", *words)
    command += ["--tls-cert", f"{folder}/server.pem", "--tls-key", f"{folder}/server.key"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert f"{path}: the list of" in said
    assert "ran out at" in said


@pytest.mark.slow  # it waits until the keys are old
def test_serve_takes_the_keys_of_tokens_from_a_url(folder: Path) -> None:
    new = token(OTHER_RSA, head={"kid": "new"})
    with KeyServer(jwks(old=OTHER_RSA), folder) as keys, (folder / "log").open("w") as log:
        (folder / "access.toml").write_text(f'''rules = ""
[jwt]
algorithm = "RS256"
audience = "{AUDIENCE}"
issuer = "{ISSUER}"
jwks_url = "{keys.url}"
jwks_ca = "ca.pem"
jwks_refresh_seconds = 10
''')
        with served(folder, "--access", f"{folder}/access.toml", log=log) as server:
            assert server.status(bearer=token(OTHER_RSA, head={"kid": "old"})) == 200
            assert server.status(bearer=new) == 401
            document = json.loads(keys.document)
            document["keys"].append(document["keys"][0] | {"kid": "new"})
            keys.document = json.dumps(document).encode()
            asked = threading.Event()
            keys.before = asked.set
            assert asked.wait(SECONDS)
            assert server.becomes(200, bearer=new)
    assert len(keys.asked) == 2
