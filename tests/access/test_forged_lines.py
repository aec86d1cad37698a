"""Text of clients in logs and in what commands print: it forges no line and does nothing to a terminal."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grpc import RpcError

from penstock.cli import main
from penstock.cli.output import json_line, print_json
from penstock.logs import JsonFormatter, TextFormatter
from penstock.wire.kafka.apis.groups import JOIN_GROUP
from penstock.wire.tinyq.frames import TinyqCommand
from tests.gateway.doors_process import DOORS, SECRET
from tests.gateway.grpc_client import GrpcClient, event
from tests.gateway.served import client_of
from tests.gateway.tinyq_client import NewClient
from tests.kafka.raw import RawClient
from tests.unit.cli.program import penstock

EVIL = "\x1b]0;pwned\x07\x1b[2J\nFAKE LINE\r\u202egnp.exe\x7f\x9b31m\u2028\u2066"
ACTED_ON = [*map(chr, [*range(10), *range(11, 32), *range(0x7F, 0xA0)]), *"\u2028\u2029\u2066\u2067\u2068\u2069"]
ACTED_ON += map(chr, range(0x202A, 0x202F))


def is_harmless(text: str) -> bool:
    """Return whether text may go to a terminal, and no line of it is of a client."""
    lines = text.split("\n")
    return not any(each in text for each in ACTED_ON) and not any(each.startswith("FAKE") for each in lines)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_a_message_and_its_traceback_forge_no_line(formatter: logging.Formatter) -> None:
    try:
        raise ValueError(EVIL)
    except ValueError:
        error: Any = sys.exc_info()
    said = [(logging.WARNING, "group %s failed", (EVIL,), error), (logging.INFO, EVIL, (), None)]
    for level, message, args, exc_info in said:
        made = logging.LogRecord(f"penstock.{EVIL}", level, __file__, 1, message, args, exc_info)
        made.stack_info = EVIL
        text = formatter.format(made)
        assert is_harmless(text)
        assert all(each.startswith("  ") for each in text.split("\n")[1:])
        assert "FAKE LINE" in text


def test_json_for_programs_does_nothing_to_a_terminal_and_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x10000)]))
    print_json({"name": every})
    for text in (capsys.readouterr().out, json_line({"name": every})):
        assert is_harmless(text)
        assert json.loads(text) == {"name": every}


def test_an_error_of_a_command_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["topics", "show", EVIL, "--url", f"sqlite:///{tmp_path}/{EVIL}.db"])
    assert is_harmless(capsys.readouterr().err)


@pytest.mark.slow  # a process of its own
@pytest.mark.parametrize("format", ["text", "json"])
def test_names_of_groups_and_clients_and_reasons_forge_no_line_of_a_server(tmp_path: Path, format: str) -> None:
    args = ["serve", "--url", f"file://{tmp_path}/log"]
    for door in DOORS:
        args += [f"--{door}", "127.0.0.1:0"]
    with (tmp_path / "err").open("w") as err:
        server = subprocess.Popen(
            penstock(*args, "--log-format", format, "--log-level", "debug"),
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            env=os.environ | {"PENSTOCK_TINYQ_PASSWORD_SHA256": SECRET},
        )
        try:
            assert server.stdout is not None
            addresses = [server.stdout.readline().rpartition(" ")[2].strip() for _ in DOORS]
            _attack(*addresses)
        finally:
            server.terminate()
            server.communicate(timeout=60)
    said = (tmp_path / "err").read_text()
    assert "FAKE LINE" in said  # it was logged
    assert is_harmless(said)


def _attack(kafka: str, http: str, grpc: str, tinyq: str) -> None:
    with RawClient(kafka) as client:
        protocols = [{"name": EVIL, "metadata": b"x"}]
        asked = {"group_id": f"g{EVIL}", "session_timeout_ms": 30000, "rebalance_timeout_ms": 1000}
        joined = client.ask(
            JOIN_GROUP, {**asked, "member_id": "", "protocol_type": "consumer", "protocols": protocols}, 2
        )
        assert joined["error_code"] == 0
    with client_of(http) as rest:
        assert rest.post("/topics", json={"name": "orders", "partitions": 1}).status_code == 201
        assert rest.post("/topics/orders/records", content=b"x").status_code == 201
        leases = "/groups/dead/topics/orders/leases"
        lease = rest.post(leases, json={"wait_seconds": 30}).json()["lease"]
        assert rest.post(f"{leases}/{lease}/nack", json={"dead": True, "reason": EVIL}).status_code == 200
    with GrpcClient(grpc) as client:
        client.publish("orders", event("e-1"))
        subscriber = client.subscribe("orders", "dead-too")
        assert not subscriber.ack(*subscriber.records(1)[:1], kind="nack", reason=EVIL).code
        for refused in (
            partial(client.publish, "orders", event(EVIL, type=f"t{EVIL}")),
            partial(client, "Groups.Get", name=f"g{EVIL}"),
        ):
            with suppress(RpcError):
                refused()
    with NewClient(int(tinyq.rpartition(":")[2])) as other:
        other.call(TinyqCommand.CREATE_CONSUME, topic=f"t{EVIL}")
        other.call(TinyqCommand.SUBSCRIBE, topic="orders", group=f"g{EVIL}", credits=1, lease_ms=0)


@pytest.mark.parametrize(
    ("template", "args", "shown"),
    [
        ("read\n%d of %.1f by %s", (3, 2.5, "a\nb"), "read\n3 of 2.5 by a\\nb"),
        ("read\n%(name)s: %(count)d", ({"name": "a\x1b", "count": 3},), "read\na\\x1b: 3"),
        ("all of it: 100%\n", (), "all of it: 100%\\n"),
    ],
)
def test_a_message_of_several_lines_keeps_them_its_numbers_and_its_names(
    template: str, args: tuple[object, ...], shown: str
) -> None:
    made = logging.LogRecord("shop", logging.INFO, __file__, 1, template, args, None)
    assert TextFormatter().format(made).endswith(f"INFO    shop {shown}")
