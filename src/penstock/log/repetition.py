"""Batches that an idempotent producer sends again: one rule for every log that takes record batches."""

from collections.abc import Collection
from typing import Protocol, TypeVar

from penstock.errors import OutOfSequence, ProducerFenced
from penstock.wire.kafka.record_batch import UNKNOWN_CRC, BatchHeader, next_sequence

REMEMBERED = 5  # batches of each producer, as many as a client of Kafka has under way at most


class _Numbered(Protocol):
    """A batch that was added, by its sequences. `crc`: its checksum as it was sent, or UNKNOWN_CRC."""

    @property
    def base_sequence(self) -> int: ...

    @property
    def last_sequence(self) -> int: ...

    @property
    def crc(self) -> int: ...


S = TypeVar("S", bound=_Numbered)


def repeated_batch(header: BatchHeader, epoch: int, batches: Collection[S]) -> S | None:
    """Return the batch that one repeats; None if it comes next, or nothing is known of its producer's.

    Clients send the same bytes again, so other bytes under the same sequences are no repetition: somebody
    else has used the producer's id, and the producer has to hear of it. A batch whose checksum is not known
    any more is taken for the same.

    `epoch`, `batches`: of its producer, the batches in the order they came. Raises ProducerFenced for an
    epoch that has passed, OutOfSequence when batches before it are missing or its place is taken.
    """
    name, sequence = str(header.producer_id), header.base_sequence
    if header.producer_epoch < epoch:
        raise ProducerFenced(name, header.producer_epoch, epoch)
    if header.producer_epoch > epoch:
        if sequence:
            raise OutOfSequence(name, sequence, 0)
        return None
    last: S | None = None
    for last in batches:
        known, sent = (last.base_sequence, last.last_sequence), (sequence, header.last_sequence)
        if known == sent and last.crc in (header.crc, UNKNOWN_CRC):
            return last
    if last is not None:
        following = next_sequence(last.last_sequence, 1)
        if sequence != following:
            raise OutOfSequence(name, sequence, following)
    return None
