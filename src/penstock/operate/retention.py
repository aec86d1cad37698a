"""Runs retention by hand, and finds the readers that hold it back. Workers run retention themselves."""

from collections.abc import Sequence
from datetime import timedelta
from operator import methodcaller

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.delivery.retention import Retention, Trimmed
from penstock.delivery.retention_rule import AsSet, RetentionSettings
from penstock.errors import Damaged, FileUnreadable
from penstock.log.contract import Log, Position, Topic
from penstock.log.entry import Entry
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


_ENABLES = "a log that does not grow without end"


@operation
def examine_holders(store: Store, clock: Clock = SYSTEM) -> list[DoctorFinding]:
    """Return a finding for each topic with records past their retention, with the readers that hold them."""
    settings = RetentionSettings.load()
    now_ms = store.database.now_ms(own_ms(clock))
    rule, grace_ms = AsSet(settings), int(settings.interval.total_seconds() * 2000)
    found = []
    for topic in store.log.topics():
        before_ms = rule.limits(topic.keep, now_ms - grace_ms).older_than_ms
        aged = {} if before_ms is None else _aged(store.log, topic, before_ms)
        if aged:
            readers = {f"reader {name}": each for name, each in store.log.holds(topic).items()}
            params = {"topic_id": topic.id, "seen_since": rule.seen_since_ms(now_ms)}
            holding = store.database.look(methodcaller("rows", "operate", "cursors_holding", **params))
            for name, partition, offset in holding:
                readers.setdefault(f"group {name}", {})[partition] = offset
            found.append(_finding(topic, aged, readers))
    return found


def _aged(log: Log, topic: Topic, before_ms: int) -> dict[int, tuple[int, int]]:
    """Return the partitions whose oldest record is too old, with its offset and timestamp."""
    starts = {number: start for number, (start, end) in log.all_bounds(topic).items() if start < end}
    firsts = _readable(log, topic, [Position(number, start) for number, start in sorted(starts.items())])
    return {each.partition: (each.offset, each.timestamp_ms) for each in firsts if each.timestamp_ms < before_ms}


def _readable(log: Log, topic: Topic, positions: Sequence[Position]) -> list[Entry]:
    """Return the records at some positions, without those that the check of the files complains of."""
    try:
        return log.at(topic, positions, bare=True)
    except (Damaged, FileUnreadable):
        if len(positions) == 1:
            return []
        return [found for each in positions for found in _readable(log, topic, [each])]


def _finding(topic: Topic, aged: dict[int, tuple[int, int]], readers: dict[str, dict[int, int]]) -> DoctorFinding:
    holding = sorted(
        name
        for name, offsets in readers.items()
        if any(number in offsets and offsets[number] <= offset for number, (offset, _) in aged.items())
    )
    oldest = from_ms(min(ms for _, ms in aged.values()))
    text = f"records past their retention are still there, the oldest of {oldest:%Y-%m-%d %H:%M} UTC"
    part = f"Retention of {topic.name}"
    if not holding:
        remedy = "run a worker, which deletes them, or: penstock retain, which deletes them at once"
        return DoctorFinding(part, PartState.NOTE, f"{text}: no worker has deleted them", _ENABLES, remedy)
    names = [name.partition(" ")[2] for name in holding]
    remedy = f"let it read on; if it is no longer needed: penstock groups delete {names[0]}, "
    remedy += "which deletes its offsets and dead letters"
    held = f"{text}: {', '.join(holding)} {'has' if len(holding) == 1 else 'have'} not read them"
    return DoctorFinding(part, PartState.LOW, held, _ENABLES, remedy)
