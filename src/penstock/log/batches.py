"""Record batches: the face of a log for those who speak Kafka's protocol.

A batch is Kafka's record batch, version 2, as bytes. An engine that keeps batches (files) takes and gives
them untouched but for base offset and leader epoch; one that keeps records (databases) decodes and encodes.
The broker knows this contract and nothing of either.

Safe from any thread. Nothing here blocks the caller for longer than handing over takes, except `fetch`,
`settle` and `mark`, which may read a disk or ask a database, and `write` where `is_quick` does not hold: call
them off the event loop.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from penstock.errors import Error, InvalidTransaction, ProducerFenced
from penstock.wire.kafka.buffer import Buffer

from .contract import Topic
from .sql.database import Transaction

HELD_BACK = -(1 << 40)  # the base offset of records that get theirs when their transaction commits
PARTITIONER = "penstock.partitioner"  # the config of a topic that says which rule puts keys into partitions
FOREIGN_KEYS, ALLOWED = "penstock.foreign.keys", "allowed"  # the config of a topic that takes them, and how
BATCH_BYTES = 64 * 1024 * 1024  # of the records of one write, unpacked, where they have to be looked at
_places = msgspec.json.Decoder(list[tuple[int, int]]).decode


class Write(NamedTuple):
    """Whole batches for one partition, one after another. The engine may write into a writable buffer.

    `transactional_id`: the one that the sender names and may use; batches of a transaction need its own.
    """

    topic: Topic
    partition: int
    batches: Buffer
    transactional_id: str | None = None


class WriteResult(NamedTuple):
    """What became of one write: where its first record stands, or why it was refused."""

    base_offset: int = -1
    start: int = -1  # the first offset that the partition holds
    timestamp_ms: int = -1  # when it was appended, where the topic says so; -1: the records' own times
    error: Error | None = None


class Aborted(NamedTuple):
    """A transaction that was taken back: from its first offset on, records of its producer do not count."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """Batches from an offset on, and what the partition holds. The first may begin before the offset."""

    pieces: Sequence[Buffer]
    start: int
    end: int  # the high watermark: all before it is durable
    stable: int  # the last stable offset: before it no transaction is undecided
    aborted: Sequence[Aborted] = ()

    @property
    def size(self) -> int:
        """How many bytes the batches have."""
        return sum(len(each) for each in self.pieces)


class LogPlace(NamedTuple):
    """A partition of a topic."""

    topic_id: int
    partition: int


class LockedProducer(NamedTuple):
    """A producer with transactions, as the tables have it, locked. `partitions`: JSON, a place each."""

    id: int
    epoch: int
    state: str
    partitions: str
    transactional_id: str | None

    def check(self, epoch: int, place: tuple[int, int], transactional_id: str | None) -> None:
        """Raise unless it may send to a partition of a topic in its transaction, under the name given."""
        name = transactional_id or str(self.id)
        if transactional_id is None or transactional_id != self.transactional_id:
            raise InvalidTransaction(name, "it is not the transactional id of the producer that is given")
        if epoch < self.epoch:
            raise ProducerFenced(name, epoch, self.epoch)
        if epoch > self.epoch:
            raise InvalidTransaction(name, f"its epoch is {self.epoch}, not {epoch}")
        if self.state != "open" or tuple(place) not in _places(self.partitions):
            raise InvalidTransaction(name, f"it is {self.state}, or the partition was not added to it")


class Sequenced(NamedTuple):
    """What a partition knows of a producer: its epoch, its last sequence, and when it was heard of."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_ms: int
    open_since: int = -1  # the first offset of its open transaction


WritesDone = Callable[[Sequence[WriteResult]], None]


class BatchLog(ABC):
    """A log by batches.

    `holds_back`: records of open transactions are not in the log until `settle`; else they are, and `mark`
    says what became of them.
    """

    holds_back: bool

    @abstractmethod
    def write(
        self, writes: Sequence[Write], done: WritesDone, *, alone: bool = False, source: object = None
    ) -> None:
        """Hand batches over; `done` is called once, from any thread, when each is durable or refused.

        `alone`: no other write is about to follow, so there is nothing to gather it with. `source`: whose it
        is, such as a connection; the writes of one are done in order, and sources may take turns.

        Buffers belong to the engine until then. A refused write (damaged, out of sequence, unknown topic, no
        room) leaves the others alone; the answers stand in the order of the writes.
        """

    def is_quick(self, write: Write) -> bool:
        """Return whether `write` takes next to no time for it; else call that off the event loop."""
        return True

    def write_at_once(self, write: Write) -> WriteResult | None:
        """Do a write that is alone, if it waits for nothing, neither disk nor database; else return None.

        None also for what is refused or out of the ordinary: then `write` says of it what there is to say.
        """
        return None

    @abstractmethod
    def fetch(self, topic: Topic, partition: int, offset: int, *, max_bytes: int, committed: bool) -> Fetched:
        """Return whole batches from the one that holds an offset, about `max_bytes`, but one at least.

        At the end: no pieces. Committed: nothing at or after the last stable offset, and the aborted
        transactions are told. Raises UnknownTopic, UnknownPartition, OffsetOutOfRange, Damaged.
        """

    def fetch_at_once(
        self, topic: Topic, partition: int, offset: int, *, max_bytes: int, committed: bool
    ) -> Fetched | None:
        """Do the same where nothing has to be waited for, neither disk nor database; else return None."""
        return None

    @abstractmethod
    def end(self, topic: Topic, partition: int) -> int:
        """Return the high watermark of a partition: what stands before it is durable, decided or not.

        Raises UnknownTopic, UnknownPartition.
        """

    @abstractmethod
    def watch(self, moved: Callable[[int, int], None]) -> Callable[[], None]:
        """Call `moved(topic_id, partition)`, from any thread, soon after an end rises; return what stops it.

        May be called too often, and for ends that others raised late; never left out for good.
        """

    @abstractmethod
    def settle(self, tx: Transaction, producer_id: int, *, committed: bool) -> Sequence[LogPlace]:
        """Decide a transaction where records of open ones are held back: add them to the log, or drop them.

        In the transaction of the database that writes the decision down. Returns the partitions that have
        risen, for `mark`. Nothing where batches are in the log from the start: `mark` follows.
        """

    @abstractmethod
    def mark(self, producer_id: int, epoch: int, places: Sequence[LogPlace], *, committed: bool) -> None:
        """Write what was decided into each of these partitions, and return once that is durable.

        May be called again for the same decision. Nothing where `settle` does it all.
        """

    @abstractmethod
    def producers(self, topic: Topic, partition: int) -> list[Sequenced]:
        """Return the producers that a partition knows."""

    @abstractmethod
    def close(self) -> None:
        """End the threads that write and watch; what was handed over is written before."""
