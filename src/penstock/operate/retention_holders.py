"""Finds topics with records beyond their retention, and the readers that retention waits for."""

from collections.abc import Sequence

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.delivery.retention_rule import AsSet, RetentionSettings
from penstock.errors import Damaged, FileUnreadable
from penstock.log.contract import Log, Position, Topic
from penstock.log.entry import Entry
from penstock.log.store import Store

from .doctor import DoctorFinding, PartState
from .operation import operation

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
            readers = _groups(store, topic, rule.seen_since_ms(now_ms))
            readers |= {f"reader {name}": each for name, each in store.log.holds(topic).items()}
            found.append(_finding(topic, aged, readers))
    return found


def _aged(log: Log, topic: Topic, before_ms: int) -> dict[int, tuple[int, int]]:
    """Return the partitions whose oldest record is too old, with its offset and timestamp."""
    starts = {number: start for number, (start, end) in log.all_bounds(topic).items() if start < end}
    firsts = _readable(log, topic, [Position(number, start) for number, start in sorted(starts.items())])
    return {
        each.partition: (each.offset, each.timestamp_ms) for each in firsts if each.timestamp_ms < before_ms
    }


def _readable(log: Log, topic: Topic, positions: Sequence[Position]) -> list[Entry]:
    """Return the records at some positions, without those that the check of the files complains of."""
    try:
        return log.at(topic, positions, bare=True)
    except (Damaged, FileUnreadable):
        if len(positions) == 1:
            return []
        return [found for each in positions for found in _readable(log, topic, [each])]


def _groups(store: Store, topic: Topic, since_ms: int) -> dict[str, dict[int, int]]:
    """Return the offsets in a topic of each group that retention waits for."""
    found: dict[str, dict[int, int]] = {}
    params = {"topic_id": topic.id, "seen_since": since_ms}
    for name, partition, offset in store.database.look(
        lambda tx: tx.rows("operate", "cursors_holding", **params)
    ):
        found.setdefault(f"group {name}", {})[partition] = offset
    return found


def _finding(
    topic: Topic, aged: dict[int, tuple[int, int]], readers: dict[str, dict[int, int]]
) -> DoctorFinding:
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
