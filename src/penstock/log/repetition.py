"""Batches that an idempotent producer sends again: one rule for every log that takes record batches."""

from collections.abc import Collection
from typing import Protocol, TypeVar

from penstock.errors import OutOfSequence, ProducerFenced
from penstock.wire.kafka.record_batch import UNKNOWN_CRC, BatchHeader, next_sequence

REMEMBERED = 5  # batches of each producer: the most that a Kafka client has in flight


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
    """Return the earlier batch that this one repeats; None if it comes next, or its producer is unknown.

    Clients send the same bytes again, so different bytes under the same sequences are no repetition: another client has
    used the id, and its producer must get an error. A batch whose checksum is no longer known counts as the same.

    `epoch`, `batches`: those of its producer, the batches in order of arrival. Raises ProducerFenced for an
    earlier epoch, OutOfSequence when batches before it are missing or its sequence is taken.
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
