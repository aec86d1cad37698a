"""The relay: the move into a log outside the outbox's database.

Two places cannot commit at once, so the log comes first, idempotently, and the rows are deleted after it. The rows of
one slot for one topic are the batches of one producer, in the slot's epoch, so the log refuses a sequencer that was
replaced. An interrupted move leaves the producer's last batch in doubt: it is in the log, and its rows may still exist.
So a relay that has not seen the commit of a producer's last batch deletes the rows of that batch, wherever they are,
and appends the next one in another transaction. The log remembers the ids of these rows, even after retention. Until
then such an event can be cancelled although it is in the log.

Rows are locked when they are read: a transaction that cancels or erases one waits, and then finds it in the log.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.database.database import Transaction
from penstock.errors import (
    OutOfSequence,
    PartitionerDiffers,
    PartitionsDiffer,
    PickChanged,
    TopicVanished,
    UnknownTopic,
)
from penstock.log.contract import Appended, Batch, Log, Position, Producer, Topic
from penstock.log.entry import Content
from penstock.log.sql.heads import HeadKey

from .move import Pick

_TABLES = ("scheduled", "staged")


class Relayed(NamedTuple):
    """How many rows were moved, whether some of the picked ones are left, and the new ends of the partitions."""

    moved: int
    left: bool
    ends: dict[HeadKey, int]


class _RelaySource(NamedTuple):
    """The slot and topic whose rows form one producer's batches."""

    slot: int
    topic: str


class _Place(NamedTuple):
    """The position of a producer: the number of its next record in its epoch."""

    epoch: int
    sequence: int


class _Unsure(NamedTuple):
    """The position of a producer according to the log, and its last batch, which may be in doubt."""

    place: _Place
    last: Appended | None


class Relay:
    """Moves the picks of one sequencer: `begin`, perhaps `move`, then `committed`. One thread at a time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._outbox = ""
        self._places: dict[_RelaySource, _Place] = {}  # producers whose last batch is committed here too,
        self._moving: dict[_RelaySource, _Place] = {}  # and those that append in the current transaction

    def begin(self) -> None:
        """Begin a transaction: the producers of an uncommitted one are now in doubt."""
        for each in self._moving:
            self._places.pop(each, None)
        self._moving = {}

    def move(self, tx: Transaction, picks: Sequence[Pick], epochs: Mapping[int, int]) -> Relayed:
        """Append the picked rows and delete them. Raises ProducerFenced when a slot has a new owner."""
        self._outbox = self._outbox or _name(tx)
        sources = sorted({_RelaySource(row.slot, row.topic) for pick in picks for row in pick.rows})
        topics = {name: self._topic(name) for name in sorted({each.topic for each in sources})}
        unsure = self._unsure(sources, epochs)
        settled = self._settle(tx, unsure, topics)
        left = [(each.table, [row for row in each.rows if (row.slot, row.topic) not in settled]) for each in picks]
        picks = [Pick(table, rows) for table, rows in left if rows]
        ends = self._append(_runs(tx, picks), topics, unsure)
        deleted = sum(tx.change("outbox", f"delete_{pick.table}", **pick.ids) for pick in picks)
        return Relayed(deleted + sum(settled.values()), bool(settled), ends)

    def committed(self) -> None:
        """Record the commit of a transaction: the rows that it moved are gone for good."""
        self._places |= self._moving
        self._moving = {}

    def _topic(self, name: str) -> Topic:
        try:
            return self._log.topic(name)
        except UnknownTopic:
            try:
                return self._log.create_topic(name)
            except (PartitionsDiffer, PartitionerDiffers):  # created meanwhile with other options
                return self._log.topic(name)

    def _unsure(self, sources: Sequence[_RelaySource], epochs: Mapping[int, int]) -> dict[_RelaySource, _Unsure]:
        """Return the producers without a batch that this relay saw committed in their epoch."""
        found = {}
        for each in sources:
            place, epoch = self._places.get(each), epochs[each.slot]
            if place is None or place.epoch != epoch:
                last = self._log.last_batch(self._producer(each))
                found[each] = _Unsure(_Place(epoch, 0 if last is None else last.sequence + len(last.positions)), last)
        return found

    def _settle(
        self, tx: Transaction, unsure: Mapping[_RelaySource, _Unsure], topics: Mapping[str, Topic]
    ) -> dict[_RelaySource, int]:
        settled = {}
        for source, (_, last) in unsure.items():
            topic = topics[source.topic]
            if last is not None and last.topic_id == topic.id:
                params = {**source._asdict(), "ids": list(last.ids)}
                gone = sum(tx.change("outbox", f"settle_{table}", **params) for table in _TABLES)
                if gone:
                    settled[source] = gone
        return settled

    def _producer(self, source: _RelaySource) -> str:
        return f"{self._outbox}/{source.slot}/{source.topic}"

    def _append(
        self,
        runs: Mapping[_RelaySource, list[Content]],
        topics: Mapping[str, Topic],
        unsure: Mapping[_RelaySource, _Unsure],
    ) -> dict[HeadKey, int]:
        batches = {}
        for source, contents in runs.items():
            place = unsure[source].place if source in unsure else self._places[source]
            batches[source] = Batch(source.topic, contents, producer=Producer(self._producer(source), *place))
            self._moving[source] = place._replace(sequence=place.sequence + len(contents))
        ends: dict[HeadKey, int] = {}
        for (source, batch), positions in zip(batches.items(), self._append_all(list(batches.values())), strict=True):
            topic = topics[source.topic]
            if source in unsure:
                self._check(batch)
            for partition, offset in dict(positions).items():
                self._log.durable(topic, Position(partition, offset))
                ends[HeadKey(topic.id, partition)] = offset + 1
        return ends

    def _append_all(self, batches: list[Batch]) -> list[list[Position]]:
        """Append batches; the move is retried if the log has changed since it was read."""
        try:
            return self._log.append_all(batches) if batches else []
        except UnknownTopic:
            raise TopicVanished from None
        except OutOfSequence as exc:
            raise PickChanged(sum(len(each.contents) for each in batches), 0) from exc

    def _check(self, batch: Batch) -> None:
        """Make sure that the first batch of an epoch is the one in the log.

        A replaced sequencer may have appended one with the same number, so that the log takes ours for a repetition of
        it.
        """
        assert batch.producer is not None
        last = self._log.last_batch(batch.producer.id)
        theirs, ours = [] if last is None else last.ids, [each.id for each in batch.contents]
        if sorted(theirs) != sorted(ours):
            raise PickChanged(len(ours), len(theirs))


def _name(tx: Transaction) -> str:
    """Return the name of this outbox among all writers of the log; one restored from a backup is another."""
    ((id,),) = tx.rows("database", "meta_read", name="log_id")
    ((incarnation,),) = tx.rows("database", "meta_read", name="incarnation")
    return f"outbox/{id}.{incarnation}"


def _runs(tx: Transaction, picks: Sequence[Pick]) -> dict[_RelaySource, list[Content]]:
    """Return the contents of the picked rows, in order, without those erased since the pick."""
    found: dict[_RelaySource, list[Content]] = {}
    for pick in picks:
        contents = {seq: Content(*rest) for seq, *rest in tx.rows("outbox", f"contents_{pick.table}", **pick.ids)}
        for row in pick.rows:
            if row.seq in contents:
                found.setdefault(_RelaySource(row.slot, row.topic), []).append(contents[row.seq])
    return found
