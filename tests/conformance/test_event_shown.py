"""Everything that is known of one event, on every engine and in every state."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from penstock.clock import from_ms
from penstock.database.database import Database
from penstock.errors import UnknownEvent
from penstock.model.retry import Fixed
from penstock.operate.audit import audit
from penstock.operate.dead import DeadSelection, discard
from penstock.operate.erase import erase
from penstock.operate.event import EventPlace, show_event
from penstock.operate.groups import pause, resume
from penstock.operate.records import delete_records
from penstock.operate.why import Code
from tests.conformance.engines import StoreEngine
from tests.suites.handling_suite import Seen, subscribe

HOUR = timedelta(hours=1)
NEVER = Fixed(HOUR, max_retries=0)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own, with a topic of one partition."""
    engine.outbox.log.create_topic("events", partitions=1)
    opened = engine.database()
    yield opened
    opened.close()


def publish(engine: StoreEngine, value: object, **said: Any) -> str:
    """Publish one event of key `a`."""
    with engine.outbox.transaction() as conn:
        return engine.outbox.publish(conn, "order.placed", value, key="a", **said)


def test_an_event_is_shown_wherever_it_is(engine: StoreEngine, database: Database) -> None:
    subscribe(engine.outbox, "g", Seen())
    later = publish(engine, {"n": 1}, at=HOUR, owner="ada")
    event = show_event(database, later, clock=engine.clock)
    assert (event.place, event.topic, event.owner) == (EventPlace.SCHEDULED, "events", "ada")
    assert event.due_at == from_ms(engine.clock.now_ms()) + HOUR
    assert (event.record.value, event.record.offset) == ({"n": 1}, None)
    assert [(each.group, each.code) for each in event.groups] == [(None, Code.NOT_DUE)]

    now = publish(engine, b"\xff\x00", headers={"tenant": "t"}, owner="ada")
    event = show_event(database, now, clock=engine.clock)
    assert (event.place, event.record.data, event.record.headers["tenant"]) == (EventPlace.STAGED, b"\xff\x00", "t")
    assert (event.record.key, event.record.partition, event.owner) == ("a", None, "ada")

    engine.outbox.drain()
    event = show_event(database, now, clock=engine.clock)
    record = event.record
    assert (event.place, record.topic, record.partition, record.offset) == (EventPlace.LOGGED, "events", 0, 0)
    assert (record.data, record.headers["tenant"], event.owner) == (b"\xff\x00", "t", "ada")
    assert [(each.group, each.code) for each in event.groups] == [("g", Code.DELIVERED)]

    erase(database, "ada", clock=engine.clock)
    event = show_event(database, now, clock=engine.clock)
    assert (event.place, event.record.data, event.record.key) == (EventPlace.ERASED, None, None)
    assert [each.code for each in event.groups] == [Code.ERASED]
    with pytest.raises(UnknownEvent, match=later):
        show_event(database, later, clock=engine.clock)


def test_what_only_a_dead_letter_keeps_is_shown_with_its_value(engine: StoreEngine, database: Database) -> None:
    subscribe(engine.outbox, "gives-up", Seen(7), retry=NEVER, on_exhausted="release")
    subscribe(engine.outbox, "fine", Seen())
    id = publish(engine, 7, headers={"tenant": "t"}, owner="ada")
    engine.outbox.drain()
    codes = {each.group: each.code for each in show_event(database, id, clock=engine.clock).groups}
    assert codes == {"gives-up": Code.DEAD, "fine": Code.DELIVERED}
    publish(engine, 8)
    engine.outbox.drain()
    delete_records(database, "events", 0, before=1, clock=engine.clock)
    event = show_event(database, id, clock=engine.clock)
    assert (event.place, event.record.value, event.owner) == (EventPlace.KEPT, 7, "ada")
    assert event.record.headers["tenant"] == "t"
    discard(database, DeadSelection(group="gives-up", all=True), clock=engine.clock)
    with pytest.raises(UnknownEvent, match="is not in the log any more"):
        show_event(database, id, clock=engine.clock)


def test_the_audit_is_narrowed_to_a_span_of_time(engine: StoreEngine, database: Database) -> None:
    subscribe(engine.outbox, "g", Seen())
    publish(engine, 1)
    engine.outbox.drain()
    pause(database, "g", clock=engine.clock)
    middle = from_ms(engine.clock.now_ms()) + HOUR
    engine.clock.advance(HOUR)
    resume(database, "g", clock=engine.clock)
    assert [each.action for each in audit(database).items] == ["group resume", "group pause"]
    assert [each.action for each in audit(database, since=middle).items] == ["group resume"]
    assert [each.action for each in audit(database, before=middle).items] == ["group pause"]
    assert audit(database, since=middle, before=middle).items == []
