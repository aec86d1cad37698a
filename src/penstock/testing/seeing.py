"""What was published: events that wait and records in the log, as a test wants to compare them."""

from dataclasses import dataclass
from datetime import datetime

from penstock.app import Outbox
from penstock.clock import from_ms
from penstock.log.sql.contract import Row
from penstock.model.record import Record
from penstock.wire.kafka.headers import decode_headers


@dataclass(frozen=True, slots=True)
class Scheduled:
    """An event for the future, and when it is due."""

    at: datetime
    record: Record


def published(outbox: Outbox) -> list[Record]:
    """Return all that was published and committed: what is in the log, then what is staged or scheduled.

    Staged events stand in the order they were published in; records of the log by their time, and of one
    partition in their order. `offset` is None as long as a record is not in the log.
    """
    rows = outbox._database.look(lambda tx: tx.rows("outbox", "staged_all"))
    return _logged(outbox) + [_record(row) for row in rows] + [each.record for each in scheduled(outbox)]


def scheduled(outbox: Outbox) -> list[Scheduled]:
    """Return the events that wait for their time, the next one first."""
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
