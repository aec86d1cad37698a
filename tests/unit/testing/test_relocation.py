"""The outbox of a program on another store: everything registered works there, and afterwards here again."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from penstock import Outbox, Record
from penstock.testing import FakeClock, published, relocated
from penstock.testing.outbox import OF_THE_PROGRAM


@dataclass
class OrderPlaced:
    """An event."""

    order_id: str


OF_THE_STORE = {
    "url",
    "_bell",
    "_clock",
    "_closing",
    "_database",
    "_dialect",
    "_durability",
    "_has_outbox",
    "_listeners",
    "_names",
    "_now_ms",
    "_store",
    "_tokens_used",
    "_workers",
}


@pytest.fixture
def seen() -> list[str | None]:
    """Give the keys that the program's handler has seen."""
    return []


@pytest.fixture
def outbox(tmp_path: Path, seen: list[str | None]) -> Iterator[Outbox]:
    """Give the outbox of a program, on a file, with an event type and a handler."""
    made = Outbox(f"sqlite:///{tmp_path}/shop.db", prefix="shop_")
    made.event("order.placed", key="order_id")(OrderPlaced)
    made.handler("order.placed", group="g", id="h")(lambda record: seen.append(record.key))
    made.migrate()
    yield made
    made.close()


def publish(outbox: Outbox, *keys: str) -> None:
    with outbox.transaction() as conn:
        for key in keys:
            outbox.publish(conn, OrderPlaced(key))


def test_the_very_object_works_elsewhere_and_then_here_again(
    outbox: Outbox, seen: list[str | None], tmp_path: Path
) -> None:
    publish(outbox, "here")
    with relocated(outbox) as elsewhere:
        assert elsewhere is outbox
        publish(outbox, "there")
        assert outbox.drain().delivered == 1
        assert seen == ["there"]
    assert outbox.url.endswith("shop.db")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as conn:
        assert conn.execute("SELECT count(*) FROM shop_staged").fetchone() == (1,)
    assert outbox.drain().delivered == 1
    assert seen == ["there", "here"]


def test_it_has_a_clock_to_move(outbox: Outbox, seen: list[str | None]) -> None:
    clock = FakeClock()
    with relocated(outbox, clock=clock), outbox.transaction() as conn:
        outbox.publish(conn, OrderPlaced("later"), at=timedelta(days=1))
    with relocated(outbox, clock=clock):
        with outbox.transaction() as conn:
            outbox.publish(conn, OrderPlaced("o-1"), at=timedelta(days=1))
        assert outbox.drain().delivered == 0
        clock.advance(timedelta(days=1))
        assert outbox.drain().delivered == 1
    assert seen == ["o-1"]


def test_a_file_can_be_named_and_keeps_the_prefix(outbox: Outbox, tmp_path: Path) -> None:
    with relocated(outbox, f"sqlite:///{tmp_path}/other.db"):
        publish(outbox, "a", "b")
    with closing(sqlite3.connect(tmp_path / "other.db")) as conn:
        assert conn.execute("SELECT count(*) FROM shop_staged").fetchone() == (2,)


def test_an_outbox_in_a_schema_can_go_where_there_are_none() -> None:
    outbox = Outbox("postgresql://nobody@nowhere.invalid/shop", schema="events")
    with relocated(outbox):
        with outbox.transaction() as conn:
            outbox.publish(conn, "t", 1)
        assert [record.value for record in published(outbox)] == [1]


def test_what_is_registered_inside_stays(outbox: Outbox) -> None:
    listened: list[str] = []
    with relocated(outbox):
        outbox.handler(group="late", id="late")(_ignored)
        outbox.listener()(lambda record: listened.append(record.type))
    assert {each.group for each in outbox._handlers.subscriptions()} == {"g", "late"}
    assert len(outbox._listeners.all) == 1


def test_it_comes_back_after_an_error(outbox: Outbox) -> None:
    database = outbox._database
    with pytest.raises(ValueError, match="declined"), relocated(outbox):
        raise ValueError("declined")
    assert outbox._database is database


def test_everything_an_outbox_holds_is_known_to_the_kit(outbox: Outbox) -> None:
    """Whoever adds something to Outbox says here whether it belongs to the store or to the program."""
    assert vars(outbox).keys() == OF_THE_STORE | OF_THE_PROGRAM
    assert not OF_THE_STORE & OF_THE_PROGRAM


def _ignored(record: Record) -> None:
    """Do nothing."""
