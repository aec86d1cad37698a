"""What a partition knows of its producers and their transactions: derived from its batches and nothing else.

Of each producer the last five batches, so that one sent again is recognised; which transactions are open, and
which were taken back. State changes only when a batch is in the log for good (`note`), so a refused or torn
batch leaves no trace. It is made again from the newest snapshot and the headers of the batches behind it; a
snapshot beyond the end is of a history that did not last, and is not used (`snapshots.py`).
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from penstock.errors import OutOfSequence, ProducerFenced
from penstock.wire.kafka.control_batch import Marker
from penstock.wire.kafka.record_batch import NO_PRODUCER, NO_SEQUENCE, BatchHeader, next_sequence

REMEMBERED = 5  # batches of each producer, as many as a client has under way at most


class SentBatch(NamedTuple):
    """A batch of a producer, and where it stands."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class AbortedTransaction(NamedTuple):
    """A transaction that was taken back: its producer's records in this range do not count."""

    producer_id: int
    first_offset: int
    last_offset: int


class ProducerState:
    """What is known of one producer."""

    __slots__ = ("batches", "epoch", "last_ms", "opened")

    def __init__(
        self, epoch: int, batches: Iterable[SentBatch] = (), opened: int | None = None, last_ms: int = -1
    ) -> None:
        self.epoch, self.last_ms = epoch, last_ms
        self.opened = opened  # where its open transaction begins
        self.batches: deque[SentBatch] = deque(batches, REMEMBERED)


def following_state(known: ProducerState | None, header: BatchHeader) -> ProducerState:
    """Return what is known of a producer once a batch of its, data or a marker, is in the log."""
    opened = None if known is None else known.opened
    if known is None or header.producer_epoch > known.epoch:
        state = ProducerState(header.producer_epoch, (), opened)
    else:
        state = ProducerState(known.epoch, known.batches, opened)
    state.last_ms = header.max_timestamp
    if header.is_control:
        state.opened = None
        return state
    if header.base_sequence != NO_SEQUENCE:
        state.batches.append(
            SentBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
        )
    if header.is_transactional and state.opened is None:
        state.opened = header.base_offset
    return state


class Producers:
    """The producers of one partition. For one thread at a time."""

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}  # where open transactions begin
        self.aborted: list[AbortedTransaction] = []
        self.offset = 0  # all batches before it are taken into account

    def repeated(self, header: BatchHeader, state: ProducerState | None) -> SentBatch | None:
        """Return the earlier batch that this one repeats; None for a new one.

        Raises ProducerFenced for an older epoch, OutOfSequence for a batch that does not follow.
        """
        if state is None:
            return None
        name, epoch, sequence = str(header.producer_id), header.producer_epoch, header.base_sequence
        if epoch < state.epoch:
            raise ProducerFenced(name, epoch, state.epoch)
        if epoch > state.epoch:
            if sequence != 0:
                raise OutOfSequence(name, sequence, 0)
            return None
        for each in state.batches:
            if each.base_sequence == sequence and each.last_sequence == header.last_sequence:
                return each
        if state.batches:
            following = next_sequence(state.batches[-1].last_sequence, 1)
            if sequence != following:
                raise OutOfSequence(name, sequence, following)
        return None

    def note(self, header: BatchHeader, marker: Marker | None = None) -> None:
        """Learn of the next batch of the log; `marker` is what it says if it is a control batch."""
        self.offset = header.next_offset
        if header.producer_id == NO_PRODUCER:
            return
        known = self.states.get(header.producer_id)
        if marker is Marker.ABORT and known is not None and known.opened is not None:
            self.aborted = [
                *self.aborted,
                AbortedTransaction(header.producer_id, known.opened, header.last_offset),
            ]
        self._set(header.producer_id, following_state(known, header))

    def _set(self, id: int, state: ProducerState) -> None:
        self.states[id] = state
        if state.opened != self._open.get(id):  # replaced, not changed: others may be looking at it
            others = {each: offset for each, offset in self._open.items() if each != id}
            self._open = others if state.opened is None else {**others, id: state.opened}

    def stable(self, end: int) -> int:
        """Return the last stable offset of a partition that ends there."""
        opened = self._open
        return min(opened.values()) if opened else end

    def open_transactions(self) -> dict[int, int]:
        """Return where each open transaction begins, by producer."""
        return dict(self._open)

    def aborted_in(self, low: int, high: int) -> list[AbortedTransaction]:
        """Return the transactions taken back that have offsets in a range."""
        return [each for each in self.aborted if each.first_offset < high and each.last_offset >= low]

    def put(self, id: int, state: ProducerState) -> None:
        """Take over what a snapshot says of a producer."""
        self._set(id, state)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch belongs to a transaction that was taken back."""
        if not header.is_transactional:
            return False
        return any(
            each.producer_id == header.producer_id
            and each.first_offset <= header.base_offset <= each.last_offset
            for each in self.aborted
        )

    def forget_before(self, start: int) -> None:
        """Forget transactions that were taken back and whose records are all gone."""
        self.aborted = [each for each in self.aborted if each.last_offset >= start]
