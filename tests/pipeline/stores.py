"""A log to read from, filled in one call, and ways to hurt it."""

from __future__ import annotations

import json
from typing import Any

from penstock import Outbox, Record
from penstock.clock import to_ms
from tests.suites.records import a_record

TYPES = ("order.placed", "order.paid", "a/b")
PARTITIONS = 8
TOPIC = "orders"


class LogStore:
    """One store with a topic of a few partitions."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.outbox = Outbox(url)
        self.outbox.migrate()
        self.outbox.log.create_topic(TOPIC, partitions=PARTITIONS)
        self._published = 0

    def fill(self, many: int, **others: Any) -> list[Record]:
        """Append so many records, of several types and keys, some with headers, some with nothing."""
        records = [self._record(self._published + n, others) for n in range(many)]
        self._published += many
        self.outbox.log.append(TOPIC, records)
        return records

    def _record(self, n: int, others: dict[str, Any]) -> Record:
        given: dict[str, Any] = {
            "key": f"k-{n % 40}" if n % 5 else None,
            "data": json.dumps({"n": n}).encode() if n % 7 else None,
            "type": TYPES[n % len(TYPES)],
            "raw_headers": (("h", b"1"), ("n", None)) if n % 3 == 0 else (),
            "timestamp_ms": 1_700_000_000_000 + n * 1_000,
        }
        return a_record(**given | others)

    def records(self) -> dict[tuple[int, int], Record]:
        """Return all that the log holds, by place, read as a consumer reads it."""
        found: dict[tuple[int, int], Record] = {}
        for partition in range(self.outbox.log.topic(TOPIC).partitions):
            start, _ = self.outbox.log.bounds(TOPIC, partition)
            for record in self.outbox.log.read(TOPIC, partition, start, 1_000_000, max_bytes=1 << 40):
                found[partition, record.offset or 0] = record
        return found

    def ends(self) -> dict[int, int]:
        """Return where each partition ends."""
        return {p: self.outbox.log.bounds(TOPIC, p).end for p in range(PARTITIONS)}

    def expire(self, partition: int, before: int) -> None:
        """Remove what retention would: the records before an offset, and the head says so."""
        self.run(f'DELETE FROM penstock_log WHERE partition = {partition} AND "offset" < {before}')
        self.run(f"UPDATE penstock_head SET start_offset = {before} WHERE partition = {partition}")

    def run(self, sql: str) -> None:
        """Run a statement in a transaction of its own."""
        with self.outbox.transaction() as conn:
            conn.execute(sql)

    def close(self) -> None:
        """Close the connections."""
        self.outbox.close()


def row_of(record: Record) -> dict[str, Any]:
    """Return a record as the source gives it."""
    return {
        "key": None if record.key is None else record.key.encode(),
        "value": record.data,
        "type": record.type,
        "headers": [{"key": name, "value": value} for name, value in record.raw_headers],
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": to_ms(record.timestamp),
    }
