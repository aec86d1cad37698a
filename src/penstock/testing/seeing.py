"""The published events, waiting or in the log, in a form that tests can compare."""

from dataclasses import dataclass
from datetime import datetime

from penstock.app import Outbox
from penstock.clock import from_ms
from penstock.database.contract import Row
from penstock.model.record import Record
from penstock.wire.kafka.headers import decode_headers


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A scheduled event and its due time."""

    at: datetime
    record: Record


def published(outbox: Outbox) -> list[Record]:
    """Return all published and committed events: those in the log, then staged and scheduled ones.

    Staged events are in order of publishing; records of the log in order of time, and within a partition in
    order of offsets. `offset` is None until a record is in the log.
    """
    rows = outbox._database.look(lambda tx: tx.rows("outbox", "staged_all"))
    return _logged(outbox) + [_record(row) for row in rows] + [each.record for each in scheduled(outbox)]


def scheduled(outbox: Outbox) -> list[Scheduled]:
    """Return the scheduled events, the next one first."""
    rows = outbox._database.look(lambda tx: tx.rows("outbox", "scheduled_all"))
    return [Scheduled(from_ms(due_ms), _record(tuple(row))) for due_ms, *row in rows]


def _logged(outbox: Outbox) -> list[Record]:
    log = outbox.log
    found: list[Record] = []
    for topic in log.topics():
        for partition, end in sorted(log.ends(topic).items()):
            offset, _ = log.bounds(topic.name, partition)
            while offset < end and (some := log.read(topic.name, partition, offset)):
                found += some
                offset = (some[-1].offset or 0) + 1
    return sorted(found, key=lambda record: record.timestamp_ms)


def _record(row: Row) -> Record:
    topic, id, key, type, value, headers, timestamp_ms = row
    text = None if key is None else key.decode("utf-8", "surrogateescape")
    pairs = decode_headers(headers) if headers else ()
    return Record(id, text, value, type, pairs, timestamp_ms, topic)
