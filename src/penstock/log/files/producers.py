"""What a partition knows of its producers and their transactions: derived from its batches and nothing else.

Of each producer the last five batches, so that one sent again is recognised; which transactions are open, and
which were taken back. State changes only when a batch is in the log for good (`note`), so a refused or torn
batch leaves no trace. It is made again from the newest snapshot and the headers of the batches behind it; a
snapshot beyond the end is of a history that did not last, and is not used (`snapshots.py`).
A producer that is silent for long is forgotten, as Kafka does, unless it has a transaction open; and where
there are too many, those that were heard of longest ago.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from penstock.errors import InvalidTransaction
from penstock.wire.kafka.control_batch import Marker
from penstock.wire.kafka.record_batch import NO_PRODUCER, NO_SEQUENCE, UNKNOWN_CRC, BatchHeader

from ..repetition import REMEMBERED, repeated_batch

_last_offset = attrgetter("last_offset")


class SentBatch(NamedTuple):
    """A batch of a producer, and where it stands. `crc`: its checksum as it was sent, if that is known."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    crc: int = UNKNOWN_CRC


class AbortedTransaction(NamedTuple):
    """A transaction that was taken back: its producer's records in this range do not count.

    `stable`: the last stable offset when that was written; whatever ended later has begun at it or behind.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    stable: int


class UndecidedTransaction(NamedTuple):
    """A transaction whose marker is damaged, or may be: nobody can say whether its records count."""

    producer_id: int
    first_offset: int
    last_offset: int
    where: str  # the segment that holds the damage, and where in it
    position: int


class ProducerState:
    """What is known of one producer. `heard_ms`: when the writer heard of it last, by its own clock."""

    __slots__ = ("batches", "epoch", "heard_ms", "last_ms", "opened")

    def __init__(
        self,
        epoch: int,
        batches: Iterable[SentBatch] = (),
        opened: int | None = None,
        last_ms: int = -1,
        heard_ms: int = 0,
    ) -> None:
        self.epoch, self.last_ms, self.heard_ms = epoch, last_ms, heard_ms
        self.opened = opened  # where its open transaction begins
        self.batches: deque[SentBatch] = deque(batches, REMEMBERED)


def following_state(known: ProducerState | None, header: BatchHeader, heard_ms: int = 0) -> ProducerState:
    """Return what is known of a producer once a batch of its, data or a marker, is in the log.

    The header has the checksum that the batch was sent with, or UNKNOWN_CRC.
    """
    opened = None if known is None else known.opened
    if known is None or header.producer_epoch > known.epoch:
        state = ProducerState(header.producer_epoch, (), opened)
    else:
        state = ProducerState(known.epoch, known.batches, opened)
    state.last_ms, state.heard_ms = header.max_timestamp, heard_ms
    if header.is_control:
        state.opened = None
        return state
    if header.base_sequence != NO_SEQUENCE:
        offsets = header.base_offset, header.last_offset
        state.batches.append(SentBatch(header.base_sequence, header.last_sequence, *offsets, header.crc))
    if header.is_transactional and state.opened is None:
        state.opened = header.base_offset
    return state


class Producers:
    """The producers of one partition. One thread at a time changes it; others may look at it meanwhile."""

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}  # where open transactions begin
        self.aborted: list[AbortedTransaction] = []  # by their last offsets
        self._aborted_of: dict[int, list[AbortedTransaction]] = {}
        self.undecided: list[UndecidedTransaction] = []
        self.offset = 0  # all batches before it are taken into account

    # -- repetitions

    def repeated(self, header: BatchHeader, state: ProducerState | None) -> SentBatch | None:
        """Return the earlier batch that this one repeats; None for a new one.

        Raises ProducerFenced for an older epoch, OutOfSequence for a batch that does not follow,
        InvalidTransaction for one outside the transaction that its producer has open.
        """
        if state is None:
            return None
        found = repeated_batch(header, state.epoch, state.batches)
        if found is None and state.opened is not None and not header.is_transactional:
            raise InvalidTransaction(str(header.producer_id), "it is open, and the batch is not part of it")
        return found

    # -- learning

    def note(self, header: BatchHeader, marker: Marker | None = None, heard_ms: int = 0) -> None:
        """Learn of the next batch of the log; `marker` is what it says if it is a control batch."""
        self.offset = header.next_offset
        if header.producer_id == NO_PRODUCER:
            return
        known = self.states.get(header.producer_id)
        self.put(header.producer_id, following_state(known, header, heard_ms))
        if marker is Marker.ABORT and known is not None and known.opened is not None:
            stable = self.stable(header.next_offset)
            self.add_aborted(AbortedTransaction(header.producer_id, known.opened, header.last_offset, stable))

    def put(self, id: int, state: ProducerState) -> None:
        """Take over what is known of a producer."""
        self.states[id] = state
        if state.opened != self._open.get(id):  # replaced, not changed: others may be looking at it
            others = {each: offset for each, offset in self._open.items() if each != id}
            self._open = others if state.opened is None else {**others, id: state.opened}

    def add_aborted(self, taken_back: AbortedTransaction) -> None:
        """Learn of a transaction that was taken back, the one that ended last."""
        self._aborted_of.setdefault(taken_back.producer_id, []).append(taken_back)
        self.aborted.append(taken_back)

    def doubt(self, last_offset: int, where: str, position: int, *, only: int | None = None) -> None:
        """Learn that the markers of open transactions, or of one producer's, may be in damaged bytes.

        They are open no longer, for nobody would ever end them; their records are not served.
        """
        for id, first in self._open.items():
            if only in (None, id):
                doubtful = UndecidedTransaction(id, first, last_offset, where, position)
                self.undecided = [*self.undecided, doubtful]
                known = self.states[id]
                self.put(id, ProducerState(known.epoch, known.batches, None, known.last_ms, known.heard_ms))

    # -- transactions

    def stable(self, end: int) -> int:
        """Return the last stable offset of a partition that ends there."""
        opened = self._open
        return min(opened.values()) if opened else end

    def aborted_in(self, low: int, high: int) -> list[AbortedTransaction]:
        """Return the transactions taken back that have offsets in a range."""
        found, aborted = [], self.aborted
        for at in range(bisect_left(aborted, low, key=_last_offset), len(aborted)):
            if aborted[at].first_offset < high:
                found.append(aborted[at])
            if aborted[at].stable >= high:
                break
        return found

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch belongs to a transaction that was taken back."""
        if not header.is_transactional:
            return False
        own = self._aborted_of.get(header.producer_id)
        if own is None:
            return False
        at = bisect_left(own, header.base_offset, key=_last_offset)
        return at < len(own) and own[at].first_offset <= header.base_offset

    def undecided_in(self, low: int, high: int) -> UndecidedTransaction | None:
        """Return the first transaction with offsets in a range of which nobody can say what became of it."""
        found = [each for each in self.undecided if each.first_offset < high and each.last_offset >= low]
        return min(found, key=attrgetter("first_offset"), default=None)

    def undecided_of(self, header: BatchHeader) -> UndecidedTransaction | None:
        """Return the transaction that a batch belongs to, if nobody can say what became of it."""
        if not self.undecided or not header.is_transactional or header.is_control:
            return None
        own = (each for each in self.undecided if each.producer_id == header.producer_id)
        return next((e for e in own if e.first_offset <= header.base_offset <= e.last_offset), None)

    # -- forgetting

    def forget_before(self, start: int) -> None:
        """Forget transactions that were taken back and whose records are all gone."""
        gone = bisect_left(self.aborted, start, key=_last_offset)
        if gone:
            kept = self.aborted[gone:]
            of: dict[int, list[AbortedTransaction]] = {}
            for each in kept:
                of.setdefault(each.producer_id, []).append(each)
            self.aborted, self._aborted_of = kept, of
        self.undecided = [each for each in self.undecided if each.last_offset >= start]

    def forget_silent(self, before_ms: int) -> None:
        """Forget producers that nothing was heard of since a moment, unless they have something open."""
        if any(each.heard_ms < before_ms for each in self.states.values()):
            self.states = {
                id: each
                for id, each in self.states.items()
                if each.heard_ms >= before_ms or each.opened is not None
            }

    @property
    def silent(self) -> int:
        """How many producers have nothing open: those that may be forgotten."""
        return len(self.states) - len(self._open)

    def forget_many(self, kept: int) -> None:
        """Forget producers that have nothing open, but for some that were heard of last."""
        silent = [  # by their place in the log: clocks go back, and after a crash all were heard of at once
            (each.batches[-1].last_offset if each.batches else -1, id)
            for id, each in self.states.items()
            if each.opened is None
        ]
        gone = {id for _, id in sorted(silent)[: max(0, len(silent) - kept)]}
        self.states = {id: each for id, each in self.states.items() if id not in gone}

    def forget_batches(self) -> None:
        """Forget all that only a writer needs: whoever merely reads asks for transactions."""
        self.states = {id: each for id, each in self.states.items() if each.opened is not None}
