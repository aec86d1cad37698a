"""`penstock worker --http`: says where it listens, ends with the worker, refuses open addresses."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

from penstock import Outbox
from penstock.access.rule import parse_rule
from penstock.cli import main
from penstock.cli.listeners import ListenAddress, ListenAddressType, refuse_open
from penstock.operate import access_rules
from tests.crash.waiting import wait_until
from tests.suites.refusal import refusal
from tests.unit.gateway.served import served

PROGRAM = """
from penstock import Outbox

outbox = Outbox("sqlite:///shop.db")
outbox.handler("t", group="g", id="h")(lambda record: None)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a program and its database."""
    (tmp_path / "shop.py").write_text(PROGRAM)
    with closing(Outbox(f"sqlite:///{tmp_path}/shop.db")) as outbox:
        outbox.migrate()
    return tmp_path


@pytest.fixture
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a command does to this process: its logging, and the program that it imports."""
    logger = logging.getLogger("penstock")
    handlers, level = [*logger.handlers], logger.level
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)
    sys.modules.pop("shop", None)


@pytest.mark.usefixtures("brisk")
def test_it_says_where_it_listens_serves_beside_the_worker_and_ends_with_it(folder: Path) -> None:
    with served(folder) as worker:
        assert worker.port > 0
        assert worker.first_line == f"http listening on 127.0.0.1:{worker.port}"
        wait_until(lambda: worker.reasons() == [], "it is ready")
        assert worker.get("/healthz").status == 200
        assert 'penstock_delivered_total{group="g",handler="h"} 0\n' in worker.get("/metrics").text
        assert worker.get("/nothing").status == 404
        with closing(socket.create_connection((worker.host, worker.port))):  # says nothing; it does not wait for it
            said = worker.end()
    assert "SIGTERM: stopping" in said
    assert "Traceback" not in said
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((worker.host, worker.port))


@pytest.mark.usefixtures("brisk")
@pytest.mark.parametrize("options", [(), ("--api",)], ids=["metrics", "api"])
def test_rules_of_the_database_hold_at_its_address_too(folder: Path, options: tuple[str, ...]) -> None:
    with closing(Outbox(f"sqlite:///{folder}/shop.db")) as outbox:
        access_rules.add(outbox.store, [parse_rule("allow ops * *")])
    with served(folder, *options) as worker:
        assert worker.get("/metrics").status == 403
        assert worker.get("/healthz").status == 200
        assert worker.get("/v1/topics/orders").status == (403 if options else 404)


@pytest.mark.usefixtures("_as_before")
def test_an_address_that_is_taken_is_refused_before_the_worker_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        left = refusal(SystemExit, main, ["worker", "shop:outbox", "--http", f"127.0.0.1:{port}"])
    assert left.code == 1
    assert f"cannot listen on 127.0.0.1 port {port}: " in capsys.readouterr().err


@pytest.mark.parametrize("text", ["8420", "127.0.0.1", ":8420", "127.0.0.1:http", "::1:8420", "[::1]", "h:65536", ""])
def test_what_is_no_address_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    left = refusal(SystemExit, main, ["worker", "shop:outbox", "--http", text])
    assert left.code == 2
    assert "--http" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", ListenAddress("127.0.0.1", 0)),
        ("[::1]:8420", ListenAddress("::1", 8420)),
        ("localhost:65535", ListenAddress("localhost", 65535)),
        ("0.0.0.0:1", ListenAddress("0.0.0.0", 1)),
    ],
)
def test_an_address_is_read_and_written_alike(text: str, address: ListenAddress) -> None:
    found = ListenAddressType().convert(text, None, None)
    assert (found, str(found)) == (address, text)


@pytest.mark.parametrize("text", ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.org:80", "localhost.evil:1"])
def test_plaintext_where_others_can_connect_must_be_asked_for(text: str) -> None:
    address = ListenAddressType().convert(text, None, None)
    with pytest.raises(click.UsageError, match=r"add --insecure"):
        refuse_open("--http", address, insecure=False)
    refuse_open("--http", address, insecure=True)


@pytest.mark.parametrize("text", ["127.0.0.1:0", "127.9.9.9:1", "[::1]:0", "localhost:1"])
def test_plaintext_on_this_machine_is_fine(text: str) -> None:
    refuse_open("--http", ListenAddressType().convert(text, None, None), insecure=False)


def test_the_command_refuses_an_open_address(capsys: pytest.CaptureFixture[str]) -> None:
    left = refusal(SystemExit, main, ["worker", "shop:outbox", "--http", "0.0.0.0:0"])
    assert left.code == 2
    assert "--http 0.0.0.0:0: other machines can connect there" in capsys.readouterr().err
