"""What a user says is a value or is refused: nothing of it becomes SQL."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from penstock.errors import InvalidHandler, InvalidInput, InvalidPage, InvalidTopic, UnknownGroup, UnknownScheduled
from penstock.operate import groups, scheduled, topics
from penstock.operate.audit import audit
from penstock.operate.clear import clear
from tests.conformance.engines import StoreEngine
from tests.conformance.introspection import Facts, facts
from tests.suites.handling_suite import Seen, subscribe
from tests.suites.outbox_suite import OrderPlaced, in_one_partition, logged
from tests.suites.refusal import refusal

ATTACKS = [
    "'; DROP TABLE penstock_log; --",
    '"; DROP TABLE penstock_log; --',
    "x') ; DELETE FROM penstock_meta; --",
    "' OR '1'='1",
    "%s %(x)s :x ? $1 {} \\' \\\\",
    "/* */ -- ; NULL",
    "\\'); SELECT pg_sleep(10); --",
]
# What PostgreSQL's text cannot hold, and SQLite's could: refused alike, before a database sees it.
UNSTORABLE = ["a\x00b", "\ud800"]

pytestmark = pytest.mark.usefixtures("unharmed")


@pytest.fixture
def unharmed(engine: StoreEngine) -> Iterator[None]:
    """Ask at the end that every table is as it was made."""
    before = shape(engine)
    yield
    assert shape(engine) == before


def shape(engine: StoreEngine) -> Facts:
    """Return what the tables are, and the store's own facts; the owners of slots come and go."""
    with engine.connect() as conn:
        return {fact for fact in facts(conn) if fact[:2] != ("row", "slot")}


def test_key_type_owner_header_and_value_are_values(engine: StoreEngine) -> None:
    in_one_partition(engine)
    with engine.connect() as conn:
        for attack in ATTACKS:
            options: dict[str, Any] = {"key": attack, "owner": attack, "headers": {attack: attack}}
            engine.outbox.publish(conn, attack, attack, **options)
            engine.outbox.publish_many(conn, [{"type": attack, "value": attack, **options}] * 2)
            engine.outbox.publish(conn, attack, attack, at=timedelta(seconds=1), **options)
        conn.commit()
    engine.outbox.drain()
    engine.clock.advance(timedelta(seconds=1))
    engine.outbox.drain()
    wanted = [attack for attack in ATTACKS for _ in range(3)] + ATTACKS
    assert [(record.type, record.key, record.value, record.headers) for record in logged(engine)] == [
        (attack, attack, attack, {attack: attack}) for attack in wanted
    ]


def test_a_topic_is_refused(engine: StoreEngine) -> None:
    outbox, log = engine.outbox, engine.outbox.log
    with engine.connect() as conn:
        for attack in ATTACKS + UNSTORABLE:
            refusal(InvalidTopic, outbox.publish, conn, "t", 1, topic=attack)
            refusal(InvalidTopic, outbox.publish_many, conn, [{"type": "t", "value": 1}], topic=attack)
            refusal(InvalidTopic, outbox.cancel, conn, "x", topic=attack)
            refusal(InvalidTopic, outbox.handler, group="g", topic=attack)
            refusal(InvalidTopic, outbox.event("t", topic=attack), OrderPlaced)
            refusal(InvalidTopic, log.create_topic, attack)
            refusal(InvalidTopic, log.append, attack, [])
            refusal(InvalidTopic, log.read, attack, 0)
            refusal(InvalidTopic, log.bounds, attack, 0)
            refusal(InvalidTopic, log.delete_topic, attack)


def test_an_id_to_cancel_is_a_value(engine: StoreEngine) -> None:
    with engine.connect() as conn:
        kept = engine.outbox.publish(conn, "t", 1, at=timedelta(hours=1))
        for attack in ATTACKS:
            assert engine.outbox.cancel(conn, attack) == 0
            assert engine.outbox.cancel(conn, f"{kept}{attack}") == 0
        assert engine.outbox.cancel(conn, kept) == 1
        conn.rollback()


def test_what_can_be_no_id_is_refused_and_the_transaction_goes_on(engine: StoreEngine) -> None:
    """On PostgreSQL a value of another type would take the caller's transaction along."""
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 1, key="k")
        for id in (*UNSTORABLE, 5, b"x", ["x"]):
            error = refusal(InvalidInput, engine.outbox.cancel, conn, id)
            assert "must be the string that publish returned" in str(error)
            refusal(InvalidInput, engine.outbox.reschedule, conn, id, timedelta())
            refusal(InvalidInput, engine.outbox.cancel, conn, key=id)
            refusal(InvalidInput, engine.outbox.cancel, conn, owner=id)
        refusal(InvalidInput, engine.outbox.cancel, conn, None)
        conn.commit()
    assert engine.outbox.drain().sequenced == 1


def test_the_name_of_a_group_is_a_value(engine: StoreEngine) -> None:
    groups = {attack: Seen() for attack in [*ATTACKS, "other"]}
    for name, seen in groups.items():
        subscribe(engine.outbox, name, seen)
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 1)
        conn.commit()
    engine.outbox.drain()
    engine.outbox.drain()
    assert [seen.values() for seen in groups.values()] == [[1]] * len(groups)


def test_a_group_that_no_database_could_hold_is_refused(engine: StoreEngine) -> None:
    for group in UNSTORABLE:
        refusal(InvalidHandler, engine.outbox.handler, group=group, id="x")


def test_names_in_operations_are_values(engine: StoreEngine) -> None:
    """Of groups, keys, ids, owners and places in listings: what nobody has is not found, or is refused."""
    database = engine.outbox.database
    for attack in ATTACKS + UNSTORABLE:
        refusal(UnknownGroup, groups.show, database, attack)
        refusal(UnknownGroup, groups.pause, database, attack)
        refusal(UnknownGroup, groups.delete, database, attack)
        refusal(InvalidTopic, topics.show, database, attack)
        refusal(InvalidTopic, clear, database, attack)
        refusal(UnknownScheduled, scheduled.show, database, attack)
        refusal(UnknownScheduled, scheduled.run_now, database, attack)
        which = scheduled.ScheduledSelection
        for selection in (which(id=attack), which(key=attack), which(owner=attack)):
            assert scheduled.cancel(database, selection) == 0
        assert audit(database, action=attack, actor=attack).items == []
        for listing in (groups.groups, topics.topics, scheduled.scheduled, audit):
            refusal(InvalidPage, listing, database, after=attack)
    place = urlsafe_b64encode(msgspec.msgpack.encode([ATTACKS[0]])).decode()
    assert groups.groups(database, after=place).items == []
