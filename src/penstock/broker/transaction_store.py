"""Producers and their transactions in the store: every step is one database transaction, under a lock.

Every new start of a producer, and every time-out, raises its epoch: late requests are refused.
"""

import logging
from collections.abc import Iterable, Sequence
from enum import StrEnum
from secrets import randbits
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from penstock import points
from penstock.clock import Clock, own_ms
from penstock.database.database import Transaction
from penstock.delivery.client_cursors import settle_places
from penstock.errors import Error, StoreError
from penstock.log.batches import BatchLog, LogPlace
from penstock.log.store import Store
from penstock.wire.kafka.error_numbers import ErrorNumber as E

from .call import Refused

logger = logging.getLogger("penstock.transactions")

DECIDED = points.declare("broker.decided", "The end of a transaction is durable; marks are not written yet.")

_LAST_EPOCH = 32_766
_FINISHING = 64  # locks, each for some of the transactional ids
_partitions = msgspec.json.Decoder(list[LogPlace]).decode


class KafkaTransactionState(StrEnum):
    """The state of a transactional producer."""

    EMPTY = "empty"  # no transaction
    OPEN = "open"  # records may come; readers do not see them
    COMMITTING = "committing"  # decided and durable; its marks are still to be written
    ABORTING = "aborting"  # the same
    COMMITTED = "committed"  # done; the next one may begin
    ABORTED = "aborted"  # the same

    @property
    def is_decided(self) -> bool:
        """Whether marks are still to be written."""
        return self in (KafkaTransactionState.COMMITTING, KafkaTransactionState.ABORTING)


_S = KafkaTransactionState
_NAMES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
KAFKA_NAMES = dict(zip(_S, _NAMES, strict=True))


class ProducerId(NamedTuple):
    """A producer's id and epoch."""

    id: int
    epoch: int


class _ProducerRow(NamedTuple):
    """A producer with a transactional id, locked."""

    id: int
    epoch: int
    state: KafkaTransactionState
    partitions: tuple[LogPlace, ...]
    timeout_ms: int
    started_ms: int | None


class ListedTransaction(NamedTuple):
    """A summary of a transactional id."""

    transactional_id: str
    producer_id: int
    state: KafkaTransactionState
    open_ms: int  # for how long, or -1


class TransactionStore:
    """Safe from any thread; every call asks the store."""

    def __init__(self, store: Store, batches: BatchLog, clock: Clock) -> None:
        self._database, self._batches, self._clock = store.database, batches, clock
        # One at a time for each transactional id: a late mark would end the next transaction.
        self._finishing = tuple(Lock() for _ in range(_FINISHING))

    # -- ids

    def begin(self, transactional_id: str | None, timeout_ms: int, known: ProducerId | None) -> ProducerId:
        """Give a producer its id and epoch; abort a transaction that it left open. Raises Refused."""
        if transactional_id is not None and not self._batches.holds_back:
            self.finish(transactional_id)
        given = self._database.run(lambda tx: self._begin(tx, transactional_id, timeout_ms, known))
        if isinstance(given, E):  # its open transaction is being aborted
            raise Refused(given)
        return given

    def _begin(
        self, tx: Transaction, transactional_id: str | None, timeout_ms: int, known: ProducerId | None
    ) -> ProducerId | E:
        row = None if transactional_id is None else self._find(tx, transactional_id)
        if row is None:
            return ProducerId(self._add(tx, transactional_id, timeout_ms), 0)
        if known is not None and known != (row.id, row.epoch):
            raise Refused(E.PRODUCER_FENCED)
        if row.state.is_decided:
            return E.CONCURRENT_TRANSACTIONS
        if row.state is _S.OPEN:
            # Another start of the producer fences the previous one; the same one must ask again with its epoch.
            fenced = row if known is not None else row._replace(epoch=row.epoch + 1)
            row, _ = self._decide(tx, fenced, committed=False)
            if row.state.is_decided:
                return E.CONCURRENT_TRANSACTIONS
        if row.epoch >= _LAST_EPOCH:
            tx.change("log", "kafka_producer_rename", id=row.id)
            return ProducerId(self._add(tx, transactional_id, timeout_ms), 0)
        epoch = row.epoch + 1
        self._put(tx, row._replace(epoch=epoch, state=_S.EMPTY, partitions=(), timeout_ms=timeout_ms))
        return ProducerId(row.id, epoch)

    def _add(self, tx: Transaction, transactional_id: str | None, timeout_ms: int) -> int:
        """Give out an unguessable id: a client that knows one can disturb its producer."""
        id = randbits(63)
        params = {"transactional_id": transactional_id, "timeout_ms": timeout_ms}
        tx.change("log", "kafka_producer_add", id=id, **params, now_ms=own_ms(self._clock))
        return id

    # -- contents of a transaction

    def add_partitions(self, transactional_id: str, producer: ProducerId, places: Sequence[LogPlace]) -> None:
        """Add partitions to a transaction; the first opens it. Raises Refused."""

        def change(tx: Transaction) -> None:
            row = self._checked(tx, transactional_id, producer)
            all_places = tuple(sorted({*(row.partitions if row.state is _S.OPEN else ()), *places}))
            self._put(tx, row._replace(state=_S.OPEN, partitions=all_places))

        self._database.run(change)

    def check_open(self, tx: Transaction, transactional_id: str, producer: ProducerId) -> None:
        """Check that a producer has a transaction open, and lock it. Raises Refused."""
        rows = tx.rows("log", "kafka_producers_lock", ids=[producer.id])
        if not rows or rows[0][4] != transactional_id:
            raise Refused(E.INVALID_PRODUCER_ID_MAPPING)
        ((_, epoch, state, _, _),) = rows
        if producer.epoch != epoch:
            raise Refused(E.INVALID_PRODUCER_EPOCH)
        if state != _S.OPEN:
            raise Refused(E.INVALID_TXN_STATE)

    # -- the end

    def end(self, transactional_id: str, producer: ProducerId, *, committed: bool) -> None:
        """Decide a transaction; on return the decision and its marks are durable. Raises Refused.

        A decision whose marks cannot be written now is still valid: clients ask again and are told when the
        marks are there. Any other number would let them give up on a decided transaction.
        """
        done = _S.COMMITTED if committed else _S.ABORTED

        def change(tx: Transaction) -> Sequence[LogPlace]:
            row = self._checked(tx, transactional_id, producer)
            if row.state is done:
                return ()  # its answer was lost
            if row.state is not _S.OPEN:
                raise Refused(E.INVALID_TXN_STATE)
            return self._decide(tx, row, committed=committed)[1]

        risen = self._database.run(change)
        points.reach(DECIDED)
        try:
            self.finish(transactional_id, risen)
        except StoreError as exc:
            logger.warning("transaction of %s is decided and has no marks yet: %s", transactional_id, exc)
            raise Refused(E.CONCURRENT_TRANSACTIONS) from exc

    def _decide(
        self, tx: Transaction, row: _ProducerRow, *, committed: bool
    ) -> tuple[_ProducerRow, Sequence[LogPlace]]:
        """Store the decision on a transaction and its effects; return the partitions that have grown, too."""
        risen = self._batches.settle(tx, row.id, committed=committed)
        settle_places(tx, row.id, committed=committed)
        if self._batches.holds_back or not row.partitions:
            decided = row._replace(state=_S.COMMITTED if committed else _S.ABORTED, partitions=())
        else:
            decided = row._replace(state=_S.COMMITTING if committed else _S.ABORTING)
        self._put(tx, decided)
        return decided, risen

    def finish(self, transactional_id: str, risen: Sequence[LogPlace] = ()) -> None:
        """Write the missing marks of a decision; may be called again. `risen`: partitions that grew."""
        if self._batches.holds_back:
            self._batches.mark(-1, -1, risen, committed=True)
            return
        with self._finishing[hash(transactional_id) % _FINISHING]:
            self._finish(transactional_id)

    def _finish(self, transactional_id: str) -> None:
        row = self._database.run(lambda tx: self._find(tx, transactional_id))
        if row is None or not row.state.is_decided:
            return
        committed = row.state is _S.COMMITTING
        self._batches.mark(row.id, row.epoch, row.partitions, committed=committed)

        def change(tx: Transaction) -> None:
            now = self._find(tx, transactional_id)
            if now is not None and now[:3] == row[:3]:
                self._put(tx, now._replace(state=_S.COMMITTED if committed else _S.ABORTED, partitions=()))

        self._database.run(change)

    def abort_late(self) -> int:
        """Abort overdue transactions, and finish decided ones; return how many."""
        now_ms = own_ms(self._clock)
        rows = self._database.look(lambda tx: tx.rows("log", "kafka_producers_late", now_ms=now_ms))
        for (transactional_id,) in rows:
            try:
                self._abort_if_late(transactional_id, now_ms)
            except Error as exc:  # of one partition, say: the transactions of others end all the same
                logger.warning("transaction of %s is not ended yet: %s", transactional_id, exc)
        return len(rows)

    def _abort_if_late(self, transactional_id: str, now_ms: int | None) -> None:
        def change(tx: Transaction) -> None:
            row = self._find(tx, transactional_id)
            if row is None or row.state is not _S.OPEN or row.started_ms is None:
                return
            if row.started_ms + row.timeout_ms < tx.now_ms(now_ms):
                self._decide(tx, row._replace(epoch=row.epoch + 1), committed=False)

        self._database.run(change)
        self.finish(transactional_id)

    def expire(self, age_ms: int, topics: Iterable[int]) -> None:
        """Forget producers that have been silent for that long, and those of deleted topics."""
        params: dict[str, Any] = {"age_ms": age_ms, "now_ms": own_ms(self._clock)}

        def change(tx: Transaction) -> None:
            tx.change("log", "kafka_sequences_expire", **params)
            tx.change("log", "kafka_sequences_forget", topics=sorted(topics))
            tx.change("log", "kafka_producers_expire", **params)

        self._database.run(change)

    def listed(self) -> list[ListedTransaction]:
        """Return all transactional ids."""
        rows = self._database.look(lambda tx: tx.rows("log", "kafka_transactions", now_ms=own_ms(self._clock)))
        return [
            ListedTransaction(name, id, _S(state), -1 if started is None else now - started)
            for name, id, state, started, now in rows
        ]

    # -- rows

    def _find(self, tx: Transaction, transactional_id: str) -> _ProducerRow | None:
        rows = tx.rows("log", "kafka_producer_of", transactional_id=transactional_id)
        if not rows:
            return None
        id, epoch, state, partitions, timeout_ms, started_ms = rows[0]
        return _ProducerRow(id, epoch, _S(state), tuple(_partitions(partitions)), timeout_ms, started_ms)

    def _checked(self, tx: Transaction, transactional_id: str, producer: ProducerId) -> _ProducerRow:
        """Return a producer's row, locked, if its id and epoch match. Raises Refused."""
        row = self._find(tx, transactional_id)
        if row is None or row.id != producer.id:
            raise Refused(E.INVALID_PRODUCER_ID_MAPPING)
        if row.epoch != producer.epoch:
            raise Refused(E.PRODUCER_FENCED)
        if row.state.is_decided:
            raise Refused(E.CONCURRENT_TRANSACTIONS)
        return row

    def _put(self, tx: Transaction, row: _ProducerRow) -> None:
        params = {"id": row.id, "epoch": row.epoch, "state": row.state.value, "timeout_ms": row.timeout_ms}
        partitions = msgspec.json.encode(row.partitions).decode()
        tx.change("log", "kafka_producer_put", **params, partitions=partitions, now_ms=own_ms(self._clock))
