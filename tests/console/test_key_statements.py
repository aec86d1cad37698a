"""However many groups read a key, its page asks the store the same number of questions."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import Cancel, Fixed, Outbox, Record
from penstock.database.database import Transaction
from penstock.operate.reset import reset
from penstock.operate.why.finder import partition_of
from tests.console.served import ServedConsole, text_of

RECORDS = 30
PATIENT = Fixed(timedelta(hours=12), max_retries=5)
MOST = 60  # statements of a page, as the measurements want it


def name_of(number: int) -> str:
    return f"group-{number:02}"


def fill(url: str, groups: int) -> None:
    """Let groups stand to the same key in every way, each at a record of its own."""
    with closing(Outbox(url)) as outbox:
        outbox.migrate()
        for number in range(groups):

            def handle(record: Record, number: int = number) -> Cancel | None:
                if record.value != number:
                    return None
                if number % 5 in (1, 2):
                    raise ValueError("not now")
                return Cancel("no such customer") if number % 5 == 3 else None

            on_failure: Any = "alone" if number % 5 == 2 else "park"
            given = {"group": name_of(number), "id": name_of(number), "on_failure": on_failure}
            outbox.handler("order.*", retry=PATIENT, **given)(handle)
        with outbox.transaction() as conn:
            for number in range(RECORDS):
                outbox.publish(conn, f"order.placed.{number}", number, key="k")
        outbox.drain()
        partition = partition_of(outbox.log.topic("events"), "k")
        for number in range(4, groups, 5):
            reset(outbox, name_of(number), topic="events", partition=partition, to=number)


def asked_for(url: str, groups: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the statements of the page, which has something of every group."""
    fill(url, groups)
    asked: list[str] = []
    execute = Transaction.execute

    def noting(self: Any, room: str, name: str, params: Any, /) -> Any:
        asked.append(f"{room}/{name}")
        return execute(self, room, name, params)

    with ServedConsole(url) as console:
        console.get("key", key="k")  # what is asked once only is not counted
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "execute", noting)
            page = text_of(console.get("key", key="k").text)
    assert all(name_of(number) in page for number in range(groups))
    assert "became a dead letter" in page or groups < 4
    return asked


def test_the_statements_of_a_key_do_not_grow_with_its_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, some, many = (asked_for(f"sqlite:///{tmp_path}/{groups}.db", groups, monkeypatch) for groups in (3, 5, 30))
    assert sorted(many) == sorted(some)
    assert len(few) <= len(many) <= MOST, many
