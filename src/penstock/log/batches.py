"""Record batches: the interface of a log for Kafka's protocol.

A batch is Kafka's record batch, version 2, as bytes. An engine that stores batches (files) passes them through and sets
only base offset and leader epoch; an engine that stores records (databases) decodes and encodes. The broker knows this
contract and neither engine.

Safe from any thread. A call hands its work over and does not block, except `fetch`, `settle` and `mark`, which may read
a disk or query a database, and `write` where `is_quick` is false: call them off the event loop.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from penstock.database.database import Transaction
from penstock.errors import Error, InvalidTransaction, ProducerFenced
from penstock.wire.kafka import Buffer

from .contract import Topic

HELD_BACK = -(1 << 40)  # base offset of records that get their offsets when their transaction commits
PARTITIONER = "penstock.partitioner"  # topic config: the rule that puts keys into partitions
FOREIGN_KEYS, ALLOWED = "penstock.foreign.keys", "allowed"  # topic config: accept keys of other partitions
BATCH_BYTES = 64 * 1024 * 1024  # unpacked records of one write, where they have to be inspected
_places = msgspec.json.Decoder(list[tuple[int, int]]).decode


class Write(NamedTuple):
    """Batches for one partition; the engine may write into the buffer. `transactional_id`: the sender's own."""

    topic: Topic
    partition: int
    batches: Buffer
    transactional_id: str | None = None


class WriteResult(NamedTuple):
    """The outcome of one write: the offset of its first record, or the reason for its refusal."""

    base_offset: int = -1
    start: int = -1  # the first offset that the partition holds
    timestamp_ms: int = -1  # time of the append, if the topic uses that; -1: the records keep their own times
    error: Error | None = None


class Aborted(NamedTuple):
    """An aborted transaction: readers ignore its producer's records from the first offset on."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """Batches from an offset on, and the bounds of the partition. The first batch may begin before the offset."""

    pieces: Sequence[Buffer]
    start: int
    end: int  # the high watermark: all before it is durable
    stable: int  # the last stable offset: before it no transaction is undecided
    aborted: Sequence[Aborted] = ()

    @property
    def size(self) -> int:
        """Total bytes of the batches."""
        return sum(len(each) for each in self.pieces)


class LogPlace(NamedTuple):
    """A partition of a topic."""

    topic_id: int
    partition: int


class LockedProducer(NamedTuple):
    """The locked row of a transactional producer. `partitions`: a JSON list of places."""

    id: int
    epoch: int
    state: str
    partitions: str
    transactional_id: str | None

    def check(self, epoch: int, place: tuple[int, int], transactional_id: str | None) -> None:
        """Raise unless it may send to a partition in its transaction, under the given transactional id."""
        name = transactional_id or str(self.id)
        if transactional_id is None or transactional_id != self.transactional_id:
            raise InvalidTransaction(name, "it is not the transactional id of this producer")
        if epoch < self.epoch:
            raise ProducerFenced(name, epoch, self.epoch)
        if epoch > self.epoch:
            raise InvalidTransaction(name, f"its epoch is {self.epoch}, not {epoch}")
        if self.state != "open" or tuple(place) not in _places(self.partitions):
            raise InvalidTransaction(name, f"it is {self.state}, or the partition was not added to it")


class Sequenced(NamedTuple):
    """The state of a producer in one partition: its epoch, last sequence, and time of its last batch."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_ms: int
    open_since: int = -1  # the first offset of its open transaction


WritesDone = Callable[[Sequence[WriteResult]], None]


class BatchLog(ABC):
    """A log by batches. `holds_back`: records of open transactions enter it in `settle`; else `mark` ends them."""

    holds_back: bool

    @abstractmethod
    def write(self, writes: Sequence[Write], done: WritesDone, *, alone: bool = False, source: object = None) -> None:
        """Hand batches over; `done` is called once, from any thread, when each is durable or refused.

        `alone`: no other write is about to follow, so do not wait to group it. `source`: its origin, such as
        a connection; the writes of one source are done in order, and sources may take turns.

        Buffers belong to the engine until then. A refused write (damaged, out of sequence, unknown topic, no
        room) does not affect the others; results are in the order of the writes.
        """

    def is_quick(self, write: Write) -> bool:
        """Return whether `write` takes next to no time for it; else call that off the event loop."""
        return True

    def write_at_once(self, write: Write) -> WriteResult | None:
        """Do a single write if it needs no wait; None if it does, is refused or is unusual: then call `write`."""
        return None

    @abstractmethod
    def fetch(self, topic: Topic, partition: int, offset: int, *, max_bytes: int, committed: bool) -> Fetched:
        """Return whole batches from the one that holds an offset, about `max_bytes`, but one at least.

        At the end: no pieces. Committed: nothing at or after the last stable offset, and `aborted` lists the
        aborted transactions. Raises UnknownTopic, UnknownPartition, OffsetOutOfRange, Damaged.
        """

    def fetch_at_once(
        self, topic: Topic, partition: int, offset: int, *, max_bytes: int, committed: bool
    ) -> Fetched | None:
        """Do the same if it needs no wait for disk or database; else return None."""
        return None

    @abstractmethod
    def end(self, topic: Topic, partition: int) -> int:
        """Return the high watermark: all before it is durable. Raises UnknownTopic, UnknownPartition."""

    @abstractmethod
    def watch(self, moved: Callable[[int, int], None]) -> Callable[[], None]:
        """Call `moved(topic_id, partition)` from any thread when an end rises, perhaps late or twice. Return a stop."""

    def settle(self, tx: Transaction, producer_id: int, *, committed: bool) -> Sequence[LogPlace]:
        """Add held-back records to the log, or drop them, with the decision; return the grown partitions for `mark`."""
        return ()

    @abstractmethod
    def mark(self, producer_id: int, epoch: int, places: Sequence[LogPlace], *, committed: bool) -> None:
        """Write the decision into these partitions, durably, perhaps again; nothing where `settle` does it all."""

    @abstractmethod
    def producers(self, topic: Topic, partition: int) -> list[Sequenced]:
        """Return the producers that a partition knows."""

    def close(self) -> None:  # noqa: B027  # closing a log in files stops its writer
        """Finish the pending writes and end the threads that write and watch."""
