"""Scheduled events, on every engine: listing, showing, cancelling and hastening them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from penstock.clock import from_ms
from penstock.database.database import Database
from penstock.errors import InvalidPage, InvalidSelection, InvalidTime, InvalidTopic, UnknownScheduled
from penstock.operate import scheduled
from penstock.operate.audit import audit
from penstock.operate.erase import digest
from penstock.operate.scheduled import ALL, ScheduledSelection
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.crash.passing_by import passing_by
from tests.suites.handling_suite import Seen, subscribe

HOUR = timedelta(hours=1)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


@pytest.fixture
def ids(engine: StoreEngine) -> list[str]:
    """Give the ids of six events, due from one hour on to six; the first two at the same moment."""
    made = []
    with engine.connect() as conn:
        for number in range(6):
            options: dict[str, Any] = {
                "key": f"k-{number % 2}",
                "owner": "anna" if number < 3 else None,
                "topic": "events" if number else "other",
                "at": max(number, 1) * HOUR,
                "headers": {"n": str(number)},
            }
            made.append(engine.outbox.publish(conn, f"t.{number}", {"n": number}, **options))
        conn.commit()
    return made


def listed(database: Database, **said: Any) -> list[str]:
    return [each.id for each in scheduled.scheduled(database, ScheduledSelection(**said), limit=1000).items]


def test_the_next_due_comes_first_and_pages_join(engine: StoreEngine, database: Database, ids: list[str]) -> None:
    for limit in (1, 2, 3, 5, 6, 7):
        found, after, pages = list[str](), None, 0
        while pages == 0 or after is not None:
            page = scheduled.scheduled(database, limit=limit, after=after)
            found, after, pages = found + [each.id for each in page.items], page.after, pages + 1
        assert (found, pages) == (ids, -(-6 // limit))
    first = scheduled.scheduled(database).items[0]
    assert (first.topic, first.key, first.owner, first.type) == ("other", "k-0", "anna", "t.0")
    assert first.due_at == from_ms(engine.clock.now_ms()) + HOUR


def test_they_are_listed_by_what_one_looks_for(engine: StoreEngine, database: Database, ids: list[str]) -> None:
    now = from_ms(engine.clock.now_ms())
    assert listed(database, topic="other") == ids[:1]
    assert listed(database, key="k-1") == ids[1::2]
    assert listed(database, owner="anna") == ids[:3]
    assert listed(database, before=now + 3 * HOUR) == ids[:3], "the bound itself is not included"
    assert listed(database, id=ids[4]) == [ids[4]]
    assert listed(database, key="k-1", owner="anna") == [ids[1]]
    assert listed(database, key="nobody") == listed(database, owner="\0") == []
    with pytest.raises(InvalidTopic):
        ScheduledSelection(topic="no topic")
    with pytest.raises(InvalidTime):
        ScheduledSelection(before=datetime(2026, 1, 1))  # noqa: DTZ001 - the naive one is what is refused


def test_a_page_that_cannot_be_is_refused(engine: StoreEngine, database: Database, ids: list[str]) -> None:
    for refused in ({"limit": 0}, {"limit": 1001}, {"after": "nonsense"}, {"after": "WzEsMiwzXQ"}):
        with pytest.raises(InvalidPage):
            scheduled.scheduled(database, **refused)
    late = scheduled.scheduled(database, limit=5).after
    ends = ScheduledSelection(before=from_ms(engine.clock.now_ms()) + 3 * HOUR)
    with pytest.raises(InvalidPage, match="before the moment"):
        scheduled.scheduled(database, ends, after=late)


def test_one_is_shown_whole(engine: StoreEngine, database: Database, ids: list[str]) -> None:
    shown = scheduled.show(database, ids[2])
    assert (shown.event.type, shown.record.value, shown.record.headers) == ("t.2", {"n": 2}, {"n": "2"})
    for unknown in ("nobody", "\0"):
        with pytest.raises(UnknownScheduled):
            scheduled.show(database, unknown)


def test_cancelling_takes_back_what_matches_and_no_more(
    engine: StoreEngine, database: Database, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled, "BATCH", 2)
    anna = ScheduledSelection(owner="anna")
    assert scheduled.cancel(database, anna, dry_run=True) == 3
    assert listed(database) == ids
    assert scheduled.cancel(database, anna, clock=engine.clock) == 3
    assert listed(database) == ids[3:]
    assert scheduled.cancel(database, anna, clock=engine.clock) == 0
    assert [(each.action, each.count) for each in audit(database).items] == [
        ("scheduled cancel", 1),
        ("scheduled cancel", 2),
    ]
    assert audit(database).items[0].subject == {"owner_sha256": digest("anna")}
    for selection, all in ((ALL, False), (anna, True)):
        with pytest.raises(InvalidSelection):
            scheduled.cancel(database, selection, all=all)
    assert scheduled.cancel(database, ALL, all=True, clock=engine.clock) == 3
    engine.clock.advance(10 * HOUR)
    assert engine.outbox.drain().sequenced == 0


def test_what_is_due_is_cancelled_or_moved_never_both(engine: StoreEngine, database: Database) -> None:
    """A caller that is cancelling one holds its row: it is passed by, on PostgreSQL without waiting."""
    if not engine.url.startswith("postgresql"):
        pytest.skip("one writer at a time: there is nothing to pass by")
    with engine.connect() as conn:
        kept, other = (engine.outbox.publish(conn, "t", 1, at=HOUR) for _ in range(2))
        conn.commit()
    with engine.connect() as conn:
        assert engine.outbox.cancel(conn, kept) == 1
        cancel = partial(scheduled.cancel, database, ALL, all=True, clock=engine.clock)
        assert passing_by(engine.url, conn, cancel) == 1
        conn.rollback()
    assert listed(database) == [kept]
    assert other != kept


def test_one_is_run_now(engine: StoreEngine, database: Database, ids: list[str]) -> None:
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    engine.outbox.drain()
    scheduled.run_now(database, ids[5], clock=engine.clock)
    engine.outbox.drain()
    assert [record.id for record in seen] == [ids[5]]
    with pytest.raises(UnknownScheduled):
        scheduled.run_now(database, ids[5], clock=engine.clock)
    (entry,) = audit(database).items
    assert (entry.action, entry.subject) == ("scheduled run-now", {"id": ids[5]})
