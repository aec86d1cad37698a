"""The last batches of an idempotent producer in a partition, so that a repeated batch is added once.

Kafka's clients have up to five batches in flight, so five are remembered. Read and written under the lock of
the head. No I/O here: rows in, rows out.
"""

from typing import NamedTuple

import msgspec

from penstock.database.contract import Row
from penstock.errors import InvalidTransaction
from penstock.wire.kafka.record_batch import UNKNOWN_CRC, BatchHeader

from ..repetition import REMEMBERED, repeated_batch


class Sent(NamedTuple):
    """An added batch: its sequences, its first offset, and its checksum as sent."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    crc: int = UNKNOWN_CRC


_decode = msgspec.json.Decoder(list[Sent]).decode


class Sequence:
    """The state of one producer in one partition: its row. `state`: of its transactions, if it has any."""

    def __init__(self, producer_id: int, epoch: int = -1, batches: str = "[]", state: str | None = None) -> None:
        self.producer_id, self.epoch, self.batches = producer_id, epoch, _decode(batches)
        self.is_open = state == "open"
        self.changed = False

    def find(self, header: BatchHeader) -> Sent | None:
        """Return the same batch if it was added before. Raises ProducerFenced, OutOfSequence, InvalidTransaction."""
        if self.epoch < 0:  # unknown, perhaps expired: accept its own sequence
            return None
        found = repeated_batch(header, self.epoch, self.batches)
        if found is None and self.is_open and not header.is_transactional:
            raise InvalidTransaction(str(self.producer_id), "it is open, and the batch is not part of it")
        return found

    def add(self, header: BatchHeader, base_offset: int) -> None:
        """Remember an added batch."""
        if header.producer_epoch != self.epoch:
            self.epoch, self.batches = header.producer_epoch, []
        self.batches.append(Sent(header.base_sequence, header.last_sequence, base_offset, header.crc))
        del self.batches[:-REMEMBERED]
        self.changed = True

    def row(self) -> Row:
        """Return its columns, from the producer's id on."""
        return self.producer_id, self.epoch, msgspec.json.encode(self.batches).decode()
