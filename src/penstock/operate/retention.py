"""Runs retention by hand, and finds groups it no longer waits for. Workers run retention themselves."""

from datetime import timedelta

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.delivery.retention import Retention, Trimmed
from penstock.delivery.retention_rule import RetentionSettings
from penstock.log.store import Store
from penstock.worker.retention import Housekeeping

from .doctor import DoctorFinding, PartState
from .operation import operation


@operation
def retain(store: Store, topic: str | None = None, *, clock: Clock = SYSTEM) -> Trimmed:
    """Delete all records that need not be kept, of one topic or all, in passes; return the counts per topic.

    Safe beside workers and publishers, and safe to repeat. Raises UnknownTopic, WriterElsewhere.
    """
    if topic is not None:
        store.log.topic(topic)
    store.log.claim()
    housekeeping = Housekeeping(store, clock)
    total = housekeeping.run(topic)
    while total.full:
        total += housekeeping.run(topic)
    return total


@operation
def planned(store: Store, topic: str | None = None, *, clock: Clock = SYSTEM) -> Trimmed:
    """Return what `retain` would delete now. Raises UnknownTopic."""
    if topic is not None:
        store.log.topic(topic)
    return Trimmed(Retention(store, RetentionSettings.load(), clock).planned(topic))


@operation
def examine_groups(store: Store, clock: Clock = SYSTEM) -> list[DoctorFinding]:
    """Return a finding for each group without a member for so long that retention does not wait for it."""
    expires = RetentionSettings.load().group_expires
    params = {"now_ms": own_ms(clock), "expires_ms": expires // timedelta(milliseconds=1)}
    rows = store.database.look(lambda tx: tx.rows("operate", "groups_expired", **params))
    starts = {
        (topic.id, number): bounds.start
        for topic in (store.log.topics() if rows else ())
        for number, bounds in store.log.all_bounds(topic).items()
    }
    lost_by: dict[tuple[str, int], int] = {}
    for name, seen_ms, topic_id, partition, offset in rows:
        missed = max(0, starts.get((topic_id, partition), 0) - offset)
        lost_by[name, seen_ms] = lost_by.get((name, seen_ms), 0) + missed
    return [
        DoctorFinding(
            f"Group {name}",
            PartState.LOW if lost else PartState.NOTE,
            f"no member since {from_ms(seen_ms):%Y-%m-%d}: retention does not wait for it"
            + (f", it had not passed {lost:,} of the deleted records" if lost else ""),
            "every record for each of its handlers",
            f"run a worker with its handlers; if it is no longer needed: penstock groups delete {name}, "
            "which deletes its offsets and dead letters",
        )
        for (name, seen_ms), lost in lost_by.items()
    ]
