"""Rules, users and certificates that change while clients are connected."""

import json
import os
import sqlite3
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from penstock import metrics
from penstock.access.dev_certificates import DevCertificates
from penstock.access.resource import AccessRight, topic
from penstock.access.rule import parse_rule
from penstock.broker.session import UNKNOWN_BYTES
from penstock.operate import access_rules
from penstock.wire.kafka.apis.cluster import API_VERSIONS
from penstock.wire.kafka.apis.records import FETCH, LIST_OFFSETS
from penstock.wire.kafka.apis.security import DELETE_ACLS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from penstock.wire.kafka.apis.topics import CREATE_TOPICS
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from tests.access.doors import KafkaDoor, TinyqDoor, TlsClient
from tests.access.house import PASSWORD, RULES, House, token
from tests.kafka.raw import frame

IN_FORCE_SECONDS = 5
CONNECTIONS = 100


@pytest.fixture
def own(tmp_path: Path) -> Iterator[House]:
    """Give a house to change."""
    with House(tmp_path) as made:
        yield made


@pytest.fixture
def still(tmp_path: Path) -> Iterator[House]:
    """Give a house that looks at its files when it is told to."""
    with House(tmp_path, look=5) as made:
        yield made


def connected(house: House, name: str = "ana") -> TlsClient:
    client = KafkaDoor().connect(house)
    assert client.sasl("PLAIN", f"\0{name}\0{PASSWORD}".encode()) is E.NONE
    return client


def end_of(client: TlsClient, name: str = "orders") -> E:
    partitions = [{"partition_index": 0, "timestamp": -1}]
    asked = {"replica_id": -1, "topics": [{"name": name, "partitions": partitions}]}
    return E(client.ask(LIST_OFFSETS, asked, 5)["topics"][0]["partitions"][0]["error_code"])


def changed(house: House, change: Callable[[], object]) -> None:
    """Change something, and wait until it is in force."""
    heard = threading.Event()
    stop = house.lock.access.watch(heard.set)
    change()
    assert heard.wait(IN_FORCE_SECONDS)
    stop()


def test_a_changed_file_is_in_force_on_an_open_connection(own: House) -> None:
    with connected(own) as client:
        assert end_of(client) is E.NONE
        changed(own, lambda: own.write(RULES + "deny ana * topic orders\n"))
        assert end_of(client) is E.TOPIC_AUTHORIZATION_FAILED
        changed(own, lambda: own.write(RULES))
        assert end_of(client) is E.NONE


def test_a_rule_of_the_database_is_in_force_on_an_open_connection(own: House) -> None:
    rule = parse_rule("deny ana read,describe topic orders")
    with connected(own) as client:
        changed(own, lambda: access_rules.add(own.store, [rule]))
        assert end_of(client) is E.TOPIC_AUTHORIZATION_FAILED
        assert own.lock.access.explain("ana", AccessRight.READ, topic("orders")).rule is not None
        changed(own, lambda: access_rules.remove(own.store, [rule], last=True))
        assert end_of(client) is E.NONE


@pytest.mark.parametrize("rules", ["", "allow ops * *\n"], ids=["no rules in the file", "rules in the file"])
def test_the_last_rule_of_the_database_is_removed_by_a_client_only_if_the_file_has_rules(
    rules: str, own: House
) -> None:
    wanted = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    changed(own, lambda: access_rules.add(own.store, [parse_rule("allow ops * *")]))
    changed(own, lambda: own.write(rules))
    with connected(own, "ops") as client:
        (result,) = client.ask(DELETE_ACLS, {"filters": [wanted]}, 1)["filter_results"]
    if rules:
        assert E(result["error_code"]) is E.NONE
        assert access_rules.rules(own.store) == ()
    else:
        assert E(result["error_code"]) is E.INVALID_REQUEST
        assert "it is the last rule" in result["error_message"]
        assert len(own.lock.access.rules) == len(access_rules.rules(own.store)) > 0


def test_a_fetch_that_waits_ends_when_its_right_does(own: House) -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    limits = {"max_wait_ms": 60_000, "min_bytes": 1, "max_bytes": 1000}
    topics = [{"topic": "orders", "partitions": [part]}]
    asked = {"replica_id": -1, "isolation_level": 0, "topics": topics, **limits}
    with connected(own) as client:
        client.send(frame(FETCH, 4, FETCH.encode_request(asked, 4)))
        changed(own, lambda: own.write(RULES + "deny ana read topic orders\n"))
        answer = FETCH.decode_answer(client.receive(), 4, 4)
        assert answer["responses"][0]["partitions"][0]["error_code"] == E.TOPIC_AUTHORIZATION_FAILED


def test_a_user_who_is_gone_is_sent_away(own: House) -> None:
    with connected(own, "ben") as ben, connected(own) as ana:
        changed(own, lambda: own.write(RULES, users=("ana", "ops")))
        assert ben.receive() == b""
        assert end_of(ana) is E.NONE


@pytest.mark.parametrize(
    "broken",
    [
        "rules = ",  # half written
        "",  # emptied before it is written
        '[users.ana]\npassword = "x"\n',
        'rules = """\nallow ana peek topic x\n"""',
        'rules = ""\nrulez = 1',
    ],
    ids=["half", "empty", "no hash", "no rule", "no key"],
)
def test_a_broken_file_changes_nothing_and_says_so(broken: str, still: House, caplog: pytest.LogCaptureFixture) -> None:
    own = still
    with connected(own) as client:
        own.access_file.write_text(broken)
        own.lock._watch.look()
        assert end_of(client) is E.NONE
        assert end_of(client, "payroll") is E.TOPIC_AUTHORIZATION_FAILED
        assert metrics.ACCESS_STALE.values()[("access",)] == 1
        assert any("what was in force stays" in each.message for each in caplog.records)
        assert [each for each in own.audit() if each["event"] == "policy"][-1]["outcome"] == "failed"
        own.write(RULES)
        own.lock._watch.look()
        assert metrics.ACCESS_STALE.values()[("access",)] == 0


def test_certificates_are_renewed_while_a_hundred_connections_run(still: House) -> None:
    own = still

    def shown() -> bytes:
        with KafkaDoor().connect(own) as client:
            assert isinstance(client.socket, ssl.SSLSocket)
            return client.socket.getpeercert(binary_form=True) or b""

    before = shown()
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(own)) for _ in range(CONNECTIONS)]
        DevCertificates(own.certificates).make(["ana"])
        own.lock._watch.look()
        after = shown()
        assert after != before
        assert [end_of(client) for client in clients] == [E.NONE] * CONNECTIONS
        (own.certificates / "server.pem").write_text("no certificate")
        own.lock._watch.look()
        assert metrics.ACCESS_STALE.values()[("tls",)] == 1
        assert shown() == after
        assert [end_of(client) for client in clients] == [E.NONE] * CONNECTIONS


def http_connection(house: House) -> tuple[Callable[[], object], Any]:
    """Return what asks over one connection that is kept, and its socket."""
    host, _, port = house.http.address.rpartition(":")
    connection = HTTPSConnection(host, int(port), context=house.context(), timeout=30)
    connection.connect()
    own = connection.sock

    def ask() -> object:
        connection.request("GET", "/v1/topics/orders", headers={"authorization": f"Bearer {token()}"})
        answer = connection.getresponse()
        answer.read()
        assert connection.sock is own  # it has not connected again
        return answer.status

    return ask, own


def tinyq_connection(house: House) -> tuple[Callable[[], object], Any]:
    """Return what publishes over one connection, and its socket."""
    client = TinyqDoor().known(house)
    return lambda: client.publish("orders", b"x")["code"], client.socket


@pytest.mark.parametrize(("connect", "well"), [(http_connection, 200), (tinyq_connection, 0)], ids=["http", "tinyq"])
def test_certificates_are_renewed_at_the_other_doors_while_a_hundred_connections_run(
    still: House, connect: Callable[[House], tuple[Callable[[], object], Any]], well: int
) -> None:
    still.http._server.config.timeout_keep_alive = 60  # the machine may be busy
    with ExitStack() as stack:
        asking = []
        for _ in range(CONNECTIONS):
            ask, connection = connect(still)
            stack.enter_context(closing(connection))
            asking.append(ask)
            assert ask() == well
        before = connection.getpeercert(binary_form=True)
        DevCertificates(still.certificates).make(["ana"])
        still.lock._watch.look()
        ask, renewed = connect(still)
        stack.enter_context(closing(renewed))
        assert ask() == well
        assert renewed.getpeercert(binary_form=True) != before
        assert [each() for each in asking] == [well] * CONNECTIONS


def test_who_shows_nothing_in_time_is_sent_away(tmp_path: Path) -> None:
    with House(tmp_path, login_wait=1) as own, KafkaDoor().connect(own) as client:
        assert client.receive() == b""


def test_a_probe_without_a_secret_is_told_yes_or_no(own: House) -> None:
    host, _, port = own.http.address.rpartition(":")
    answers = []
    for headers in ({}, {"authorization": "Basic " + b64encode(f"ops:{PASSWORD}".encode()).decode()}):
        connection = HTTPSConnection(host, int(port), context=own.context(), timeout=30)
        connection.request("GET", "/readyz", headers=headers)
        answers.append(json.loads(connection.getresponse().read()))
        connection.close()
    assert answers == [{"ready": True}, {"ready": True, "reasons": []}]
    assert not [each for each in own.audit() if each["outcome"] in ("refused", "failed")]


def test_the_audit_goes_on_in_a_new_file_when_the_old_one_is_moved_away(own: House) -> None:
    with connected(own):
        pass
    assert own.audit()  # what was told before is written
    os.replace(own.audit_file, own.folder / "audit.1")
    with connected(own, "ops") as client:
        assert end_of(client) is E.NONE
    assert any(each["principal"] == "ops" for each in own.audit())
    assert '"ops"' not in (own.folder / "audit.1").read_text()


def test_a_limit_slows_one_principal_and_nobody_else(tmp_path: Path) -> None:
    more = '[[limits]]\nprincipal = "ana"\ntopic = "orders*"\nrequests_per_second = 0.5\n'
    with House(tmp_path, more=more) as own:
        access = own.lock.access
        ana = access.authenticate_basic("ana", PASSWORD)
        ops = access.authenticate_basic("ops", PASSWORD)
        access.charge(ana, "orders", 10)
        assert access.charge(ana, "orders", 10) > 0
        assert access.charge(ana, "payroll", 10) == 0
        assert access.charge(ops, "orders", 10) == access.charge(ops, "orders", 10) == 0


def test_who_is_not_known_yet_has_little_room(own: House) -> None:
    with KafkaDoor().connect(own) as client:
        software = {"client_software_name": "raw", "client_software_version": "1"}
        assert client.ask(API_VERSIONS, software, 3)["api_keys"]
        (session,) = own.broker.sessions
        assert session._connection.max_bytes == UNKNOWN_BYTES
        assert session._connection.before_login
        assert client.sasl("PLAIN", f"\0ana\0{PASSWORD}".encode()) is E.NONE
        assert session._connection.max_bytes == own.broker.settings.frame_bytes
        assert not session._connection.before_login


def creating(name: str) -> bytes:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    asked = {"topics": [topic], "timeout_ms": 10_000}
    return frame(CREATE_TOPICS, 5, CREATE_TOPICS.encode_request(asked, 5))


def test_nothing_that_follows_a_failure_is_carried_out(own: House) -> None:
    with connected(own) as client, connected(own) as other:
        again = frame(SASL_HANDSHAKE, 1, SASL_HANDSHAKE.encode_request({"mechanism": "PLAIN"}, 1))
        wrong = SASL_AUTHENTICATE.encode_request({"auth_bytes": b"\0ana\0wrong"}, 1)
        client.send(again + frame(SASL_AUTHENTICATE, 1, wrong) + creating("orders-after"))
        assert client.receive() != b""
        answer = SASL_AUTHENTICATE.decode_answer(client.receive(), 1, 4)
        assert E(answer["error_code"]) is E.SASL_AUTHENTICATION_FAILED
        assert client.receive() == b""
        other.send(creating("orders-other"))
        assert other.receive() != b""
    assert {"orders-after", "orders-other"} & {each.name for each in own.store.log.topics()} == {"orders-other"}


def test_a_rule_of_the_database_that_cannot_be_read_changes_nothing_and_says_so(still: House) -> None:
    watch, access = still.lock._watch, still.lock.access
    access_rules.add(still.store, [parse_rule("deny ana read topic orders")])
    watch.look()
    before = access.rules
    rule = "penstock_access_rule (rule, added_by, added_ms) VALUES ('allow x peek topic y', 'a', 0)"
    with sqlite3.connect(still.folder / "store.db") as conn:
        conn.execute(f"INSERT INTO {rule}")
    conn.close()
    watch.look()
    assert access.rules == before
    assert metrics.ACCESS_STALE.values()[("database",)] == 1
    with sqlite3.connect(still.folder / "store.db") as conn:
        conn.execute("DELETE FROM penstock_access_rule WHERE added_ms = 0")
    conn.close()
    watch.look()
    assert metrics.ACCESS_STALE.values()[("database",)] == 0
