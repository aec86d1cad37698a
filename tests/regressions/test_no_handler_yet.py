"""An event that nobody handles is an event all the same, and waits for who comes later."""

from __future__ import annotations

from penstock import Record, metrics
from tests.conformance.engines import StoreEngine


def test_what_was_published_before_any_handler_existed_is_delivered_to_the_first(
    engine: StoreEngine,
) -> None:
    with engine.connect() as conn:
        ids = [engine.outbox.publish(conn, "t", number, key="k") for number in range(3)]
        conn.commit()
    metrics.UNREAD.reset()
    counts = engine.outbox.drain()
    assert (counts.sequenced, counts.delivered) == (3, 0)
    assert metrics.UNREAD.values() == {(engine.outbox.store.name, "events"): 3}

    later, seen = engine.another(), list[str]()

    @later.handler("t", group="late", start="earliest")
    def remember(record: Record) -> None:
        seen.append(record.id)

    assert later.drain().delivered == 3
    assert seen == ids


def test_a_group_whose_handlers_do_not_know_a_type_leaves_it_to_other_groups(
    engine: StoreEngine,
) -> None:
    """It burns no retries on it, and makes no dead letter of it."""
    seen: list[str] = []
    engine.outbox.handler("known", group="narrow", id="narrow")(lambda record: seen.append("narrow"))
    with engine.connect() as conn:
        for type in ("unknown", "known"):
            engine.outbox.publish(conn, type, 1, key="k")
        conn.commit()
    counts = engine.outbox.drain()
    assert (counts.delivered, counts.retried, counts.dead) == (1, 0, 0)

    later = engine.another()
    later.handler("unknown", group="wide", id="wide")(lambda record: seen.append("wide"))
    assert later.drain().delivered == 1
    assert seen == ["narrow", "wide"]
