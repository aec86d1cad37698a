"""The same attacks at every door: the same right outcome. A row is an attack, a column a door."""

import logging
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.access.dev_certificates import DevCertificates
from penstock.clock import SYSTEM
from penstock.gateway.exposition import scrape
from tests.access.attack_table import ATTACKS, ELSEWHERE, PAGE, SLOW, Attack, page
from tests.access.doors import DOORS, IN, OUT, Door
from tests.access.hogs import HOG_KINDS
from tests.access.house import House, token

SECONDS = 30


@pytest.mark.parametrize(
    ("attack", "door"),
    [
        pytest.param(attack, door, id=f"{door.name}: {attack.name}")
        for attack in ATTACKS
        for door in DOORS
        if attack.kind not in (*SLOW, *HOG_KINDS) and hasattr(door, attack.kind)
    ],
)
def test_an_attack_ends_as_it_should_at_every_door(attack: Attack, door: Door, house: House) -> None:
    assert getattr(door, attack.kind)(house, *attack.given(house)) == attack.right


def test_connections_that_are_only_held_end_in_time_at_every_door_and_others_are_served(house: House) -> None:
    with ExitStack() as stack:
        held = {stack.enter_context(getattr(door, kind)(house)): (door.name, kind) for door in DOORS for kind in SLOW}
        for each in held:
            each.settimeout(0.2)
        ended: set[tuple[str, str]] = set()
        until = SYSTEM.monotonic() + SECONDS
        assert {door.bearer(house, token()) for door in DOORS} == {IN}  # type: ignore[attr-defined]
        while len(ended) < len(held) and SYSTEM.monotonic() < until:
            for each, name in held.items():
                if name not in ended and _has_ended(each, trickles=name[1] == "trickling"):
                    ended.add(name)
        assert ended == set(held.values())


def _has_ended(connection: socket.socket, *, trickles: bool) -> bool:
    try:
        if trickles:
            connection.sendall(b"0")
        return connection.recv(1000) == b""
    except TimeoutError:
        return False
    except OSError:  # TLS and the kernel say in many ways that it has ended
        return True


def test_the_table_of_attacks_is_the_one_in_the_reference() -> None:
    names = [each.name for each in ATTACKS]
    assert len(names) >= 40
    assert len(set(names)) == len(names)
    assert PAGE.read_text() == page(), "run: python -m tests.access.attack_table"


@pytest.mark.parametrize("test", sorted({each for attack in ELSEWHERE for each in attack.tests.values()}))
def test_a_test_that_the_table_names_is_there(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (PAGE.parents[2] / path).read_text()


def test_a_certificate_of_another_authority_or_none_is_out(house: House, tmp_path: Path) -> None:
    DevCertificates(tmp_path).make(["ana"])
    for kind in ("pem", "key"):
        (tmp_path / f"ana.{kind}").replace(house.certificates / f"forged.{kind}")
    for door in DOORS:
        if hasattr(door, "certificate"):
            assert door.certificate(house, "forged") == OUT


def test_secrets_are_in_no_line_of_the_audit_and_every_refusal_is(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "penstock"):
        for door in DOORS:
            attacks: Any = door
            attacks.bearer(house, token())
            attacks.bearer(house, "canary-7f3a-wrong-token-0123456789")
            if hasattr(door, "basic"):
                attacks.basic(house, "canary-7f3a-as-name", "canary-7f3a-as-password")
                attacks.basic(house, "ana", "canary-7f3a-as-password")
    lines = house.audit()
    assert {(each["door"], each["outcome"]) for each in lines} >= {
        (door.name, outcome) for door in DOORS for outcome in ("ok", "failed")
    }
    said = house.audit_file.read_text() + caplog.text + scrape([])
    assert "canary-7f3a" not in said
