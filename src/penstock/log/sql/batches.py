"""Batches over a log of rows: decoded on write, encoded on read.

A few threads write (`write_threads`), each partition in one transaction at a time: writes that arrive
meanwhile share the next one, so that many producers share a commit, and sources take turns (`WriteTurns`).
Refusals (out of sequence, fenced, not in its transaction) are decided in that transaction, under the locks,
and do not affect the other writes. Lock order: topics, producers, heads.

Records of open transactions are held back in a separate table, and get their offsets when the transaction
commits: there are no markers, and the last stable offset is the end.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.contract import Row, Rows
from penstock.database.database import Transaction
from penstock.errors import Error, OffsetOutOfRange, StoreLocked, StoreUnreachable, UnknownProducer, UnknownTopic
from penstock.redaction import traced
from penstock.wire.kafka import Buffer

from ..batches import (
    BATCH_BYTES,
    HELD_BACK,
    BatchLog,
    Fetched,
    LockedProducer,
    LogPlace,
    Sequenced,
    Write,
    WriteResult,
    WritesDone,
)
from ..contract import OffsetRange, Topic, check_partition
from ..entry import Entry, is_cut
from .append import COLUMNS
from .head_watch import HeadWatch
from .heads import HeadKey, Numbering, Raised
from .held_records import allowing_foreign, release_held
from .kafka_batches import Incoming, TakenWrite, encode_entries, take
from .log import SqlLog, ranges_table
from .sequences import Sequence as Known
from .topics import keep_topics
from .write_threads import WriteThreads

logger = logging.getLogger("penstock.batches")

_LOOK_OFFSETS = 2000  # most offsets that one fetch of a partition covers


class SqlBatchLog(BatchLog):
    """The log of a database by batches."""

    holds_back = True

    def __init__(self, log: SqlLog, clock: Clock = SYSTEM, *, batch_bytes: int = BATCH_BYTES) -> None:
        self._log, self._database, self._clock = log, log.database, clock
        self._batch_bytes = batch_bytes
        self._source = f"urn:penstock:{log.identity().id}"
        self._heads = HeadWatch(log)
        self._writing = WriteThreads(self._database, self._write, clock)

    # -- writing

    def write(self, writes: Sequence[Write], done: WritesDone, *, alone: bool = False, source: object = None) -> None:
        if not self._writing.add(source, writes, done):
            closed = StoreUnreachable(self._database.where, "it is closed")
            done([WriteResult(error=closed)] * len(writes))

    def close(self) -> None:
        self._writing.close()
        self._heads.stop()

    def _write(self, writes: Sequence[Write], waits: bool) -> list[WriteResult | None]:
        raised: list[Raised] = []
        answers: list[WriteResult | None]
        try:
            now_ms = self._clock.now_ms()
            taken = [take(each, now_ms, self._batch_bytes) for each in writes]
            unit = _WritingTransaction(taken, own_ms(self._clock), waits)
            answers, raised = self._database.run(unit.run)
        except StoreLocked:
            answers = [None] * len(writes)
        except Exception as exc:
            answers = [WriteResult(error=self._refusal(exc))] * len(writes)
        try:
            self._heads.raised(raised)
        except Exception as exc:  # the batches are committed: their writers are told so
            logger.error("waiting fetches were not woken", exc_info=traced(exc))
        return answers

    def _refusal(self, exc: Exception) -> Error:
        """Return the error of a failed write; an unexpected one is logged with its trace."""
        if isinstance(exc, Error):
            return exc
        translated = self._database.dialect.translate(exc)
        if translated is None:
            logger.error("a write failed", exc_info=traced(exc))
        return translated or Error(f"the write failed: {type(exc).__name__}")

    # -- reading

    def fetch(self, topic: Topic, partition: int, offset: int, *, max_bytes: int, committed: bool) -> Fetched:
        check_partition(topic, partition)

        def look(tx: Transaction) -> Fetched:
            bounds = tx.rows("log", "bounds", topic_id=topic.id, partition=partition)
            if not bounds:
                raise UnknownTopic(topic.name)
            start, end = bounds[0]
            if not start <= offset <= end:
                raise OffsetOutOfRange(topic.name, partition, offset, start, end)
            if offset == end:
                return Fetched((), start, end, end)
            wanted = OffsetRange(partition, offset, min(end, offset + _LOOK_OFFSETS))
            rows = tx.rows(
                "log", "read_ranges", topic_id=topic.id, ranges=ranges_table([wanted]), max_bytes=max(1, max_bytes)
            )
            entries = [Entry(*row) for row in rows]
            until = entries[-1].offset + 1 if entries and is_cut(entries, max_bytes) else wanted.high
            batch: Buffer = encode_entries(topic.name, self._source, entries, offset, until)
            while len(batch) > max_bytes and len(entries) > 1:  # event headers, or a large last record
                fitting = len(entries) * max(1, max_bytes) // len(batch)
                entries = entries[: max(1, min(fitting, len(entries) - 1))]
                until = entries[-1].offset + 1
                batch = encode_entries(topic.name, self._source, entries, offset, until)
            return Fetched((batch,), start, end, end)

        return self._database.look(look)

    def end(self, topic: Topic, partition: int) -> int:
        check_partition(topic, partition)
        asked = {"topic_id": topic.id, "partition": partition}
        bounds = self._database.look(lambda tx: tx.rows("log", "bounds", **asked))
        if not bounds:
            raise UnknownTopic(topic.name)
        return int(bounds[0][1])

    def watch(self, moved: Callable[[int, int], None]) -> Callable[[], None]:
        return self._heads.watch(moved)

    # -- transactions

    def settle(self, tx: Transaction, producer_id: int, *, committed: bool) -> Sequence[LogPlace]:
        """Move the held-back records into the log under the locks of the heads, or delete them."""
        risen = release_held(tx, producer_id) if committed else ()
        tx.change("log", "pending_delete", producer_id=producer_id)
        return risen

    def mark(self, producer_id: int, epoch: int, places: Sequence[LogPlace], *, committed: bool) -> None:
        """Wake waiting readers: the decision itself needs no markers."""
        self._heads.look_soon(places)

    def producers(self, topic: Topic, partition: int) -> list[Sequenced]:
        rows = self._log.rows("kafka_sequences_of", topic, partition=partition)
        return [
            Sequenced(id, epoch, Known(id, epoch, batches).batches[-1].last_sequence, used_ms)
            for id, epoch, batches, used_ms, _, _ in rows
        ]


class _WritingTransaction:
    """One transaction of a writing thread. `waits`: for locks; else locked partitions are left out."""

    def __init__(self, taken: Sequence[TakenWrite], now_ms: int | None, waits: bool = True) -> None:
        self._taken, self._now_ms, self._waits = taken, now_ms, waits

    def run(self, tx: Transaction) -> tuple[list[WriteResult | None], list[Raised]]:
        """Add the writes; return the result of each (None: left out), and the raised heads."""
        self._rows: list[Row] = []
        self._held: list[Row] = []
        sound = [each for each in self._taken if each.error is None]
        names = [each.write.topic.name for each in sound]
        self._topics = keep_topics(tx, names, waits=self._waits) if sound else {}
        self._taken = [self._judged(each) for each in self._taken]
        sound = [each for each in self._taken if each.error is None and self._problem(each) is None]
        self._allowed = allowing_foreign(tx, {each.write.topic.id for each in sound if each.foreign is not None})
        self._producers = _locked_producers(tx, sound, waits=self._waits)
        keys = {_key(each) for each in sound}
        self._numbering = Numbering(tx, keys, waits=self._waits) if keys else None
        self._known = _known(tx, sound)
        starts = _starts(tx, keys)
        answers = [None if self._is_locked(each) else self._added(each, starts) for each in self._taken]
        raised = self._finish(tx)
        return answers, raised

    def _is_locked(self, taken: TakenWrite) -> bool:
        """Return whether a row that a write needs is locked or missing: only waiting can tell which."""
        if self._waits or taken.error is not None:
            return False
        if taken.write.topic.name not in self._topics:
            return True
        if self._problem(taken) is not None:
            return False
        assert self._numbering is not None
        headers = [each.header for each in taken.batches]
        return not self._numbering.holds(_key(taken)) or any(
            header.is_transactional and header.producer_id not in self._producers for header in headers
        )

    def _judged(self, taken: TakenWrite) -> TakenWrite:
        found = self._topics.get(taken.write.topic.name)
        return taken if found is None else taken.among(found.partitions)

    def _problem(self, taken: TakenWrite) -> Error | None:
        topic, partition = taken.write.topic, taken.write.partition
        found = self._topics.get(topic.name)
        if found is None or found.id != topic.id:
            return UnknownTopic(topic.name)
        try:
            check_partition(found, partition)
        except Error as exc:
            return exc
        return None

    def _added(self, taken: TakenWrite, starts: dict[HeadKey, int]) -> WriteResult:
        error = taken.error or self._problem(taken)
        if error is not None:
            return WriteResult(error=error)
        key = _key(taken)
        is_foreign = taken.foreign is not None and taken.write.topic.id not in self._allowed
        try:
            self._check_all(key, taken)
            if is_foreign and not self._were_sent(key, taken.batches):
                raise taken.refusal()
        except Error as exc:
            return WriteResult(error=exc, start=starts.get(key, -1))
        bases = [self._add(key, each) for each in taken.batches]
        return WriteResult(bases[0], starts.get(key, 0))

    def _check_all(self, key: HeadKey, taken: TakenWrite) -> None:
        """Raise unless every batch can be added, so that a write is added whole or not at all."""
        for each in taken.batches:
            header = each.header
            if header.is_transactional:
                producer = self._producers.get(header.producer_id)
                if producer is None:
                    raise UnknownProducer(header.producer_id)
                producer.check(header.producer_epoch, key, taken.write.transactional_id)
            if header.producer_id >= 0:
                self._sequence(key, header.producer_id).find(header)

    def _were_sent(self, key: HeadKey, batches: Sequence[Incoming]) -> bool:
        headers = [each.header for each in batches]
        return all(
            header.producer_id >= 0 and self._sequence(key, header.producer_id).find(header) is not None
            for header in headers
        )

    def _add(self, key: HeadKey, batch: Incoming) -> int:
        header, rows, times_ms = batch
        known = self._sequence(key, header.producer_id) if header.producer_id >= 0 else None
        sent = None if known is None else known.find(header)
        if sent is not None:
            return sent.base_offset
        base = HELD_BACK
        if header.is_transactional:
            self._held += [(header.producer_id, *key, *row[:-1]) for row in rows]
        else:
            assert self._numbering is not None
            offsets = [self._numbering.give(key, time_ms) for time_ms in times_ms]
            self._rows += [(*key, offset, *row) for offset, row in zip(offsets, rows, strict=True)]
            base = offsets[0]
        if known is not None:
            known.add(header, base)
        return base

    def _sequence(self, key: HeadKey, producer_id: int) -> Known:
        place = (*key, producer_id)
        if place not in self._known:
            self._known[place] = Known(producer_id)
        return self._known[place]

    def _finish(self, tx: Transaction) -> list[Raised]:
        raised: list[Raised] = []
        if self._rows:
            assert self._numbering is not None
            tx.bulk("log", "append", Rows.of(f"topic_id partition place {COLUMNS}", self._rows))
            raised = [each for each in self._numbering.finish() if each.added]
        if self._held:
            names = "producer_id topic_id partition id key type value headers timestamp_ms"
            tx.bulk("log", "pending_add", Rows.of(names, self._held))
        changed = [(*place[:2], *each.row()) for place, each in self._known.items() if each.changed]
        if changed:
            sequences = Rows.of("topic_id partition producer_id epoch batches", sorted(changed))
            tx.change("log", "kafka_sequences_put", sequences=sequences, now_ms=self._now_ms)
        return raised


def _key(taken: TakenWrite) -> HeadKey:
    return HeadKey(taken.write.topic.id, taken.write.partition)


def _locked_producers(tx: Transaction, taken: Sequence[TakenWrite], *, waits: bool) -> dict[int, LockedProducer]:
    ids = sorted({one.header.producer_id for each in taken for one in each.batches if one.header.is_transactional})
    name = "kafka_producers_keep" if waits else "kafka_producers_keep_free"
    rows = tx.rows("log", name, ids=ids) if ids else []
    return {row[0]: LockedProducer(*row) for row in rows}


def _known(tx: Transaction, taken: Sequence[TakenWrite]) -> dict[tuple[int, int, int], Known]:
    places = sorted(
        {(*_key(each), one.header.producer_id) for each in taken for one in each.batches if one.header.producer_id >= 0}
    )
    if not places:
        return {}
    rows = tx.rows("log", "kafka_sequences", places=Rows.of("topic_id partition producer_id", places))
    return {(row[0], row[1], row[2]): Known(*row[2:]) for row in rows}


def _starts(tx: Transaction, keys: set[HeadKey]) -> dict[HeadKey, int]:
    topics = sorted({key.topic_id for key in keys})
    rows: list[Any] = tx.rows("log", "heads_of_topics", topics=topics) if topics else []
    return {
        HeadKey(topic_id, partition): start
        for topic_id, partition, start, _ in rows
        if HeadKey(topic_id, partition) in keys
    }
