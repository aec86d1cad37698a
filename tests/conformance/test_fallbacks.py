"""What only a fallback completed is stored with the progress, listed, and told by `why`."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from penstock import Record
from penstock.database.database import Database
from penstock.log.contract import Keep
from penstock.model.retry import Fixed
from penstock.operate.dead import dead_letters
from penstock.operate.dead_views import completed_by_fallback
from penstock.operate.erase import erase
from penstock.operate.groups import delete
from penstock.operate.reset import EARLIEST, reset
from penstock.operate.retention import retain
from penstock.operate.why import why
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition

NEVER = Fixed(timedelta(seconds=1), max_retries=0)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


def completed(engine: StoreEngine, *, transaction: bool = False) -> None:
    """Have three records delivered, of which a fallback completes the second."""
    in_one_partition(engine)

    def charge(record: Record) -> None:
        if record.value == 2:
            raise ValueError("no such card")

    subscribe(engine.outbox, "g", charge, retry=NEVER, fallback=lambda record: None, transaction=transaction)
    publish_values(engine, 1, 2, 3)
    engine.outbox.drain()


@pytest.mark.parametrize("transaction", [False, True], ids=["alone", "in a unit"])
def test_what_a_fallback_completed_is_listed_and_told(
    engine: StoreEngine, database: Database, transaction: bool
) -> None:
    completed(engine, transaction=transaction)
    (found,) = completed_by_fallback(database, group="g", topic="events").items
    assert (found.partition, found.offset, found.key, found.type) == (0, 1, "k", "t")
    assert (found.failures, found.reason) == (1, "ValueError: no such card")
    assert dead_letters(database).items == []
    (answer,) = why(database, found.id, clock=engine.clock)
    assert "was completed in group g by the fallback of its handler" in answer.sentence
    assert "after 1 failure (ValueError: no such card)" in answer.sentence


def test_it_goes_with_the_record_the_group_a_reset_and_an_erasure(engine: StoreEngine, database: Database) -> None:
    completed(engine)
    log = engine.outbox.log
    reset(database, "g", topic="events", to=2, partition=0, clock=engine.clock)
    assert len(completed_by_fallback(database).items) == 1, "it stands before that"
    reset(database, "g", topic="events", to=EARLIEST, clock=engine.clock)
    assert completed_by_fallback(database).items == []
    engine.outbox.drain()
    assert len(completed_by_fallback(database).items) == 1
    log.retain(log.topic("events"), Keep(age_ms=0))
    retain(database, clock=engine.clock)
    assert completed_by_fallback(database).items == []
    log.retain(log.topic("events"), Keep())
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 2, key="k", owner="me")
        engine.outbox.publish(conn, "t", 2, key="k", owner="you")
        conn.commit()
    engine.outbox.drain()
    assert len(completed_by_fallback(database).items) == 2
    erase(database, "me", clock=engine.clock)
    assert len(completed_by_fallback(database).items) == 1
    delete(database, "g", clock=engine.clock)
    assert completed_by_fallback(database).items == []
