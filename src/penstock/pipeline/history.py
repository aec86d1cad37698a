"""Checks that the log is still the one that was read, by the ends and marks of a checkpoint or table.

A restored backup or a lossy failover rewinds history: offsets that were read later hold other records, and a
reader that knows only offsets would go on behind them. So checkpoint and table keep the log's id, its
incarnation, and for each partition a mark of the last record: a hash of the record's id. At least one of them
differs when the log no longer holds the records that were read.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from penstock.errors import AnotherLog, HistoryTakenBack
from penstock.log.contract import Bounds, Log, LogIdentity, Position, Topic

from .offsets import Ends, Range

_SHOWN = 4


def mark_of(record_id: str) -> int:
    """Return the mark of a record: 63 bits, as a Delta table can keep, and never 0."""
    return (int.from_bytes(sha256(record_id.encode()).digest()[:8], "big") >> 1) or 1


@dataclass(frozen=True, slots=True)
class Past:
    """The knowledge of the log that a checkpoint or a table keeps; `keeper` names it in words."""

    keeper: str
    log_id: str
    topic: str
    topic_id: int
    incarnation: int | None
    ends: Ends
    marks: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, keeper: str, batch: Range) -> "Past":
        """Return the knowledge at the end of a batch."""
        topic = (batch.topic, batch.topic_id)
        return cls(keeper, batch.log_id, *topic, batch.incarnation, batch.ends, batch.marks)

    def places(self) -> list[Position]:
        """Return the positions of the records whose marks are known."""
        return [Position(p, self.ends[p] - 1) for p in self.marks if self.ends.get(p)]


@dataclass(frozen=True, slots=True)
class LogNow:
    """The log now. `marks`: those of the records at the requested positions, as far as it holds them."""

    identity: LogIdentity
    topic: Topic
    bounds: Mapping[int, Bounds]
    marks: Mapping[Position, int]


def log_now(log: Log, topic: Topic, places: Collection[Position], bounds: Mapping[int, Bounds] | None = None) -> LogNow:
    """Return the state of a log now, with the marks of the records at some positions."""
    found = log.at(topic, places, bare=True) if places else ()
    marks = {Position(each.partition, each.offset): mark_of(each.id) for each in found}
    return LogNow(log.identity(), topic, bounds or log.all_bounds(topic), marks)


def check_past(past: Past, present: LogNow) -> None:
    """Refuse to go on from a past that differs from the log. Raises AnotherLog, HistoryTakenBack."""
    topic, log_id = present.topic, present.identity.id
    if past.log_id != log_id:
        raise AnotherLog(past.keeper, f"log {past.log_id}", f"log {log_id}")
    if past.topic_id != topic.id:
        anew = " (it was deleted and made anew)" if past.topic == topic.name else ""
        was, now = f"topic {past.topic} with id {past.topic_id}", f"topic {topic.name} with id {topic.id}"
        raise AnotherLog(past.keeper, was, now + anew)
    wrong = list(_differences(past, present))
    if wrong or past.incarnation not in (None, present.identity.incarnation):
        listed = wrong or list(_reached(past, present))
        more = [f"and {len(listed) - _SHOWN} more partitions"] if len(listed) > _SHOWN else []
        raise HistoryTakenBack(topic.name, ", ".join([*listed[:_SHOWN], *more]))


def _differences(past: Past, present: LogNow) -> Iterator[str]:
    for partition, end in sorted(past.ends.items()):
        bounds = present.bounds.get(partition)
        if bounds is None or end > bounds.end:
            yield f"partition {partition}: read up to {end}, the log ends at {bounds.end if bounds else 0}"
            continue
        mark, found = past.marks.get(partition), present.marks.get(Position(partition, end - 1))
        if mark and found and mark != found:
            yield f"partition {partition}: read up to {end}, and another record stands at {end - 1} now"


def _reached(past: Past, present: LogNow) -> Iterator[str]:
    for partition, end in sorted(past.ends.items()):
        if end and partition in present.bounds:
            yield f"partition {partition}: read up to {end}, the log ends at {present.bounds[partition].end}"
