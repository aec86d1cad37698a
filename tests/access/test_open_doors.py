"""TLS keeps nobody out: a listener that others reach asks who it is, or was told to let everybody in."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from penstock.access.dev_certificates import DevCertificates
from penstock.access.password import hash_token
from penstock.access.rule import parse_rule
from penstock.database.migrations import migrate
from penstock.log.store import open_store
from penstock.operate import access_rules
from tests.unit.cli.program import penstock

SECONDS = 60
ANYWHERE = "0.0.0.0:0"
USERS = f'rules = ""\n[tokens.bot]\nhash = "{hash_token("a-token-of-nobody-0123456789")}"\n'
WORKER = """
import penstock
outbox = penstock.Outbox("sqlite:///shop.db")
@outbox.handler("order.placed", group="mailer")
def mail(event): ...
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store, certificates, access files and a worker's program."""
    made = tmp_path_factory.mktemp("open")
    DevCertificates(made / "tls").make([])
    store = open_store(f"sqlite:///{made}/shop.db")
    migrate(store.database)
    store.close()
    (made / "open.toml").write_text('rules = ""\n')
    (made / "users.toml").write_text(USERS)
    (made / "shop.py").write_text(WORKER)
    return made


def run(folder: Path, *words: str, url: str = "sqlite:///shop.db", **environ: str) -> tuple[int, str]:
    """Run a command that listens; once it does, end it. Return its code, and all that it said."""
    command = [*penstock(*words), "--tls-cert", "tls/server.pem", "--tls-key", "tls/server.key"]
    if words[0] != "worker":
        command += ["--url", url]
    with subprocess.Popen(
        command, cwd=folder, env=os.environ | environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        if "listening on" in process.stdout.readline():
            process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=SECONDS)
    return process.returncode, " ".join(said.split())


@pytest.mark.parametrize("access", ["", "open.toml"], ids=["no file", "a file without users"])
@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--kafka", ("serve", "--kafka", ANYWHERE)),
        ("--http", ("serve", "--kafka", "127.0.0.1:0", "--http", ANYWHERE)),
        ("--grpc", ("serve", "--grpc", ANYWHERE)),
        ("--http", ("worker", "shop:outbox", "--http", ANYWHERE)),
        ("--http", ("worker", "shop:outbox", "--http", ANYWHERE, "--api")),
        ("--listen", ("console", "--listen", ANYWHERE)),
    ],
    ids=["kafka", "http", "grpc", "worker", "worker with REST", "console"],
)
def test_a_listener_that_others_reach_by_tls_alone_is_refused(
    flag: str, words: tuple[str, ...], access: str, folder: Path
) -> None:
    code, said = run(folder, *words, *(["--access", access] if access else []))
    assert code == 2
    assert f"{flag} {ANYWHERE}: other machines can connect there" in said
    assert "--access" in said
    assert ("--anonymous" in said) == (words[0] != "console")


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--kafka", ANYWHERE, "--anonymous"),
        ("serve", "--http", ANYWHERE, "--access", "users.toml"),
        ("serve", "--grpc", ANYWHERE, "--tls-client-ca", "tls/ca.pem"),
        ("serve", "--http", "127.0.0.1:0"),
        ("worker", "shop:outbox", "--http", ANYWHERE, "--anonymous"),
    ],
    ids=["asked for", "an access file", "certificates", "this machine", "a worker, asked for"],
)
def test_a_listener_is_not_refused_where(words: tuple[str, ...], folder: Path) -> None:
    assert run(folder, *words)[0] == 0


def test_certificates_that_are_optional_keep_nobody_out(folder: Path) -> None:
    words = ("serve", "--http", ANYWHERE, "--tls-client-ca", "tls/ca.pem")
    code, said = run(folder, *words, PENSTOCK_ACCESS_CLIENT_CERTIFICATES="optional")
    assert (code, "--anonymous" in said) == (2, True)


def test_rules_of_the_database_are_rules(folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/locked.db"
    store = open_store(url)
    migrate(store.database)
    access_rules.add(store, [parse_rule("allow ops * *")])
    store.close()
    assert run(folder, "serve", "--http", ANYWHERE, url=url)[0] == 0
