"""The last batches of an idempotent producer in a partition: a batch that is sent again is added once.

Kafka's clients have up to five batches under way, so five are remembered. Read and written under the lock
of the head. No I/O here: rows in, rows out.
"""

from typing import NamedTuple

import msgspec

from penstock.wire.kafka.record_batch import BatchHeader

from ..repetition import REMEMBERED, repeated_batch
from .contract import Row


class Sent(NamedTuple):
    """A batch that was added: its sequences, and where its first record stands."""

    base_sequence: int
    last_sequence: int
    base_offset: int


_decode = msgspec.json.Decoder(list[tuple[int, int, int]]).decode


class Sequence:
    """What one partition knows of one producer."""

    def __init__(self, producer_id: int, epoch: int = -1, batches: list[Sent] | None = None) -> None:
        self.producer_id, self.epoch, self.batches = producer_id, epoch, batches or []
        self.changed = False

    @classmethod
    def of(cls, producer_id: int, epoch: int, batches: str) -> "Sequence":
        """Return what a row says."""
        return cls(producer_id, epoch, [Sent(*each) for each in _decode(batches)])

    def find(self, header: BatchHeader) -> Sent | None:
        """Return the batch if it was added before; None if it comes next.

        Raises ProducerFenced for an epoch that has passed, OutOfSequence when batches before it are missing.
        """
        if self.epoch < 0:  # nothing is known of it, perhaps no more: it says where it is
            return None
        return repeated_batch(header, self.epoch, self.batches)

    def add(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a batch that was added."""
        if header.producer_epoch != self.epoch:
            self.epoch, self.batches = header.producer_epoch, []
        self.batches.append(Sent(header.base_sequence, header.last_sequence, base_offset))
        del self.batches[:-REMEMBERED]
        self.changed = True

    def row(self) -> Row:
        """Return it as a row says it, from the producer's id on."""
        return self.producer_id, self.epoch, msgspec.json.encode(self.batches).decode()
