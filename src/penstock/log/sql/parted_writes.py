"""Writes in parts: independent processes fill the parts, and one process releases them as a whole.

Spark's tasks write this way. The records of a part wait in `pending`, invisible to readers, under the number of the
part: every attempt of a task is a separate part. The release names the valid parts, moves them into the log under the
locks of the heads, and records in the same transaction the application and number of the write; releasing the same
write again adds nothing. So a repeated write may be divided into other parts. Unreleased parts are removed after a day.
Lock order: topics, the application, parts, heads.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock import points
from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.contract import Rows
from penstock.database.database import Database, Transaction
from penstock.errors import MapChanged, PartsMissing, UnknownTopic, WriteOutOfOrder

from ..contract import Topic
from .heads import raise_by
from .topics import keep_topics

BEFORE_RELEASE = points.declare("log.before_release", "The parts of a write are there; none is released yet.")
AFTER_RELEASE = points.declare("log.after_release", "A write is released; the caller does not know yet.")

_PART_BITS = 62
_OLD_PARTS = 100  # removed in one transaction
KEPT_MS = 24 * 3600 * 1000  # age of an unreleased part, since its last record


@dataclass(frozen=True, slots=True)
class PartedWrite:
    """The identity of a write; `content` tells equal epochs apart. `follows`: consecutive, only the last may repeat."""

    application: str
    epoch: int
    content: str = ""
    follows: bool = True


@dataclass(frozen=True, slots=True)
class WritePart:
    """A filled part: its number of records, and the state of its topics at that time."""

    id: int
    records: int
    topics: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # id and generation, by name


class PartRecords(NamedTuple):
    """Records of a part, by column; a missing type is empty, headers are in Kafka's framing."""

    topic_id: Sequence[int]
    partition: Sequence[int]
    id: Sequence[str]
    key: Sequence[bytes | None]
    type: Sequence[str]
    value: Sequence[bytes | None]
    headers: Sequence[bytes | None]
    timestamp_ms: Sequence[int]


class PartedWrites:
    """The writes in parts of one database. Safe from any thread."""

    def __init__(self, database: Database, clock: Clock = SYSTEM) -> None:
        self._database, self._clock = database, clock

    def new_part(self) -> int:
        """Return a unique number for a part."""
        return -1 - secrets.randbits(_PART_BITS)

    def add(self, part: int, records: PartRecords, *, begins: tuple[str, int] | None = None) -> None:
        """Add at least one record to a part. `begins`: the write, with the first records. Raises PartsMissing."""
        rows = Rows(producer_id=[part] * len(records.id), **records._asdict())
        now_ms = own_ms(self._clock)

        def change(tx: Transaction) -> None:
            if begins is not None:
                name, epoch = begins
                tx.change("log", "write_part_begin", id=part, application=name, epoch=epoch, now_ms=now_ms)
            elif not tx.change("log", "write_part_touch", id=part, now_ms=now_ms):
                raise PartsMissing(1)
            tx.bulk("log", "pending_add", rows)

        self._database.run(change)

    def release(self, write: PartedWrite | None, parts: Sequence[WritePart]) -> bool:
        """Move parts into the log, in this order; return False if the write was released before.

        Without a write, that is not checked. Raises WriteOutOfOrder, UnknownTopic, MapChanged, PartsMissing.
        """
        points.reach(BEFORE_RELEASE)
        released = self._database.run(lambda tx: self._release(tx, write, parts))
        points.reach(AFTER_RELEASE)
        return released

    def _release(self, tx: Transaction, write: PartedWrite | None, parts: Sequence[WritePart]) -> bool:
        topics = keep_topics(tx, {name for part in parts for name in part.topics})
        ids = sorted(part.id for part in parts)
        is_new = write is None or self._is_new(tx, write)
        if is_new:
            _check_topics(topics, parts)
            if ids and len(tx.rows("log", "write_parts_lock", ids=ids)) < len(ids):
                raise PartsMissing(len(ids))
            if ids:
                self._move(tx, parts)
            if write is not None:
                put = {"epoch": write.epoch, "content": write.content, "now_ms": own_ms(self._clock)}
                tx.change("log", "write_epoch_put", application=write.application, **put)
        _remove(tx, ids)
        return is_new

    def _is_new(self, tx: Transaction, write: PartedWrite) -> bool:
        tx.change("log", "write_epoch_claim", application=write.application)
        ((last, content),) = tx.rows("log", "write_epoch_lock", application=write.application)
        if last < 0 and (write.epoch == 0 or not write.follows):
            return True
        if last < 0:
            raise WriteOutOfOrder(write.application, write.epoch, None)
        differs = "" not in (content, write.content) and content != write.content
        if not write.follows and (write.epoch < last or (write.epoch == last and differs)):
            raise WriteOutOfOrder(write.application, write.epoch, last, follows=False)
        if not write.follows:
            return write.epoch > int(last)
        if write.epoch == last and write.content == content:
            return False
        if write.epoch == last + 1:
            return True
        raise WriteOutOfOrder(write.application, write.epoch, last)

    def _move(self, tx: Transaction, parts: Sequence[WritePart]) -> None:
        ids = [part.id for part in parts]
        counts = tx.rows("log", "parts_counts", ids=ids)
        if sum(row[2] for row in counts) != sum(part.records for part in parts):
            raise PartsMissing(len(parts))
        moved = Rows(id=ids, place=list(range(len(ids))))
        raise_by(tx, counts, lambda: tx.change("log", "parts_move", parts=moved))

    def discard(self, ids: Iterable[int]) -> None:
        """Remove parts that will not be released."""
        if wanted := sorted(ids):
            self._database.run(lambda tx: _remove(tx, [id for (id,) in tx.rows("log", "write_parts_lock", ids=wanted)]))

    def expire(self) -> bool:
        """Remove some parts unchanged for a day; return whether there may be more."""

        def change(tx: Transaction) -> bool:
            before_ms = tx.now_ms(own_ms(self._clock)) - KEPT_MS
            old = [id for (id,) in tx.rows("log", "write_parts_old", before_ms=before_ms, limit=_OLD_PARTS)]
            _remove(tx, old)
            return len(old) == _OLD_PARTS

        return self._database.run(change)


def _remove(tx: Transaction, ids: list[int]) -> None:
    if ids:
        tx.change("log", "parts_empty", ids=ids)
        tx.change("log", "write_parts_delete", ids=ids)


def _check_topics(topics: Mapping[str, Topic], parts: Sequence[WritePart]) -> None:
    """Raise if topics have changed since the parts were filled: UnknownTopic, MapChanged."""
    for name, known in sorted({pair for part in parts for pair in part.topics.items()}):
        topic = topics.get(name)
        if topic is None or topic.id != known[0]:
            raise UnknownTopic(name)
        if topic.generation != known[1]:
            raise MapChanged
