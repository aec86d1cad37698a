"""Listeners: best effort after the commit, and what goes wrong in one reaches nobody."""

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from threading import get_ident

import pytest

from penstock import Outbox, Record, metrics
from penstock.errors import InvalidHandler, InvalidTopic
from penstock.outbox import bell
from tests.crash.waiting import wait_until


@dataclass
class Paid:
    order: str


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    """Give an outbox in a file."""
    made = Outbox(f"sqlite:///{tmp_path}/shop.db")
    made.migrate()
    yield made
    made.close()


@pytest.fixture
def conn(outbox: Outbox, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection of the caller's own."""
    with closing(sqlite3.connect(tmp_path / "shop.db", timeout=60)) as opened:
        yield opened


def marks(conn: sqlite3.Connection) -> int:
    """Return how many rows there are in the table of tokens."""
    (count,) = conn.execute("SELECT count(*) FROM penstock_token").fetchone()
    return int(count)


def test_each_way_to_match_and_to_be_called(outbox: Outbox, conn: sqlite3.Connection) -> None:
    heard: set[str] = set()

    @outbox.listener("order.*")
    def by_prefix(record: Record) -> None:
        heard.add(f"prefix {record.topic} {record.key} {record.value} {record.headers}")

    @outbox.listener(lambda record: record.key == "k")
    async def by_predicate(record: Record) -> None:
        await asyncio.sleep(0)
        heard.add("predicate")

    @outbox.listener()
    def typed(event: Paid) -> None:
        heard.add(f"typed {event.order}")

    @outbox.listener(topic="other")
    def of_a_topic(record: Record) -> None:
        heard.add(f"topic {record.type}")

    outbox.event("paid", key="order")(Paid)
    with conn:
        outbox.publish(conn, "order.placed", {"n": 1}, key="k", headers={"h": "v"})
        outbox.publish(conn, Paid("o-1"))
        outbox.publish(conn, "x", 1, topic="other")
    wait_until(lambda: len(heard) == 4, "all are called")
    assert heard == {"prefix events k {'n': 1} {'h': 'v'}", "predicate", "typed o-1", "topic x"}


def test_what_one_raises_is_logged_and_counted_and_the_next_is_called(
    outbox: Outbox, conn: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []
    metrics.LISTENER_FAILURES.reset()

    @outbox.listener("t")
    def failing(record: Record) -> None:
        raise LookupError("the listener's own")

    @outbox.listener(lambda record: 1 / 0 > 1)
    def never(record: Record) -> None:
        heard.append(-1)

    @outbox.listener("t")
    def hear(record: Record) -> None:
        heard.append(get_ident())

    with caplog.at_level(logging.ERROR, "penstock.listeners"), conn:
        outbox.publish(conn, "t", 1)
    wait_until(lambda: heard, "the second is called")
    assert heard != [get_ident()], "it ran in the caller's own thread"
    assert "the listener's own" in caplog.text
    failed = {labels[0].rpartition(".")[2] for labels in metrics.LISTENER_FAILURES.values()}
    assert failed == {"failing", "never"}


@pytest.mark.parametrize("raised", [SystemExit(3), asyncio.CancelledError()], ids=["exit", "cancelled"])
def test_one_that_would_end_its_thread_ends_nothing(
    outbox: Outbox, conn: sqlite3.Connection, raised: BaseException
) -> None:
    heard: list[str] = []

    @outbox.listener("order.lost")
    def ending(record: Record) -> None:
        raise raised

    @outbox.listener("order.paid")
    def hear(record: Record) -> None:
        heard.append(str(record.type))

    for type in ("order.lost", "order.paid"):
        with conn:
            outbox.publish(conn, type, 1)
        wait_until(lambda: marks(conn) == 0, "it has been called, and its mark is gone")
    assert heard == ["order.paid"]


def test_nothing_is_left_behind_and_the_mark_is_never_an_event(outbox: Outbox, conn: sqlite3.Connection) -> None:
    heard: list[str] = []
    outbox.listener()(lambda record: heard.append(record.id))
    for _ in range(20):
        with conn:
            outbox.publish(conn, "t", 1)
    wait_until(lambda: len(heard) == 20 and marks(conn) == 0, "all are called and all marks are gone")
    assert len(set(heard)) == 20
    assert outbox.drain().sequenced == 20


def test_a_token_known_already_is_not_heard_again(outbox: Outbox, conn: sqlite3.Connection) -> None:
    heard: list[str] = []
    outbox.listener()(lambda record: heard.append(record.type))
    for _ in range(2):
        with conn:
            outbox.publish(conn, "first", 1, token="t")
    with conn:
        outbox.publish(conn, "end", 1)
    wait_until(lambda: "end" in heard, "the last is heard")
    assert heard == ["first", "end"]


def test_a_transaction_that_stays_open_for_long_is_heard_all_the_same(
    outbox: Outbox, conn: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bell gives up on it; listeners do not."""
    monkeypatch.setattr(bell, "PACE", replace(bell.PACE, given_up_after=0.001))
    heard: list[str] = []
    looks: list[object] = []
    look = outbox._listeners._look

    def looking(slots: object) -> None:
        looks.append(slots)
        look(slots)

    monkeypatch.setattr(outbox._listeners._bell, "_ring", looking)
    outbox.listener()(lambda record: heard.append(record.type))
    outbox.publish(conn, "late", 1)
    wait_until(lambda: len(looks) > 2, "it was looked for, more than once")
    assert heard == []
    conn.commit()
    wait_until(lambda: heard == ["late"], "it is heard in the end")


@pytest.mark.parametrize("name", ["ENABLED", "PUBLISH_AFTER_SAVE"])
def test_they_can_be_turned_off(
    name: str, outbox: Outbox, conn: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PENSTOCK_LISTENERS_{name}", "false")
    outbox.listener()(lambda record: pytest.fail("called"))
    with conn:
        outbox.publish(conn, "t", 1)
    assert marks(conn) == 0


def test_a_store_that_is_away_costs_the_calls_and_nothing_else(
    outbox: Outbox, conn: sqlite3.Connection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.listener()(lambda record: None)
    with caplog.at_level(logging.WARNING, "penstock.listeners"), monkeypatch.context() as patch:
        patch.setattr(outbox._database, "look", lambda work: (_ for _ in ()).throw(OSError("away")))
        with conn:
            outbox.publish(conn, "t", 1)
        wait_until(lambda: "away" in caplog.text, "it says so")
    assert outbox.drain().sequenced == 1


def test_what_can_be_no_listener_is_refused(outbox: Outbox) -> None:
    with pytest.raises(InvalidHandler):
        outbox.listener(5)(print)  # type: ignore[arg-type]
    with pytest.raises(InvalidTopic):
        outbox.listener(topic="no topic")(print)
    with pytest.raises(InvalidHandler):
        outbox.listener()(lambda: None)
