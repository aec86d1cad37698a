"""The producers of a partition and their transactions, derived from its batches alone.

It keeps the last five batches of each producer, to recognise repetitions; the open transactions, and the aborted ones.
State changes only when a batch is committed to the log (`note`), so a refused or torn batch leaves no trace. It is
rebuilt from the newest snapshot and the headers of the batches behind it; a snapshot beyond the end belongs to a lost
history and is ignored. A producer that has been silent for long is forgotten, as in Kafka, unless it
has an open transaction; if there are too many producers, the longest silent ones are forgotten.

The file `<offset>.snapshot` holds the state after the batches before that offset, as JSON behind a checksum, so that a
restart does not read the whole log:

| bytes | field   | meaning                                        |
|-------|---------|------------------------------------------------|
| 0-7   | magic   | `PENSTSNP`                                     |
| 8-11  | crc     | CRC32C of the rest                             |
| 12-   | content | JSON: `Snapshot`, below                        |

Written when a segment is closed and at a clean stop, under another name and renamed. Crash: a snapshot that is torn,
damaged or beyond the recovered end is ignored; an older one, or the whole log, gives the same state.
"""

import struct
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from penstock.errors import InvalidTransaction
from penstock.wire.kafka.record_batch import NO_PRODUCER, NO_SEQUENCE, UNKNOWN_CRC, BatchHeader, Marker, crc32c

from ..repetition import REMEMBERED, repeated_batch
from .disk import Disk, read_whole, write_whole

SNAPSHOT_SUFFIX = ".snapshot"
_MAGIC = b"PENSTSNP"
_HEAD = struct.Struct(">8sI")
_last_offset = attrgetter("last_offset")


class SentBatch(NamedTuple):
    """A batch of a producer, and its offsets. `crc`: its checksum as sent, if known."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    crc: int = UNKNOWN_CRC


class AbortedTransaction(NamedTuple):
    """A transaction that readers skip. `stable`: the last stable offset at its marker: later ones begin behind it."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable: int


class UndecidedTransaction(NamedTuple):
    """A transaction whose marker is or may be damaged: its outcome is in doubt."""

    producer_id: int
    first_offset: int
    last_offset: int
    where: str  # the damaged segment, and the position in it
    position: int


class ProducerState:
    """The state of one producer. `heard_ms`: time of its last batch, by the writer's clock."""

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
    """Return the state after one more batch, data or marker; its header has the checksum as sent, or UNKNOWN_CRC."""
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
    """The producers of one partition. One thread at a time changes it; others may read it meanwhile."""

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}  # first offsets of open transactions
        self.aborted: list[AbortedTransaction] = []  # by their last offsets
        self._aborted_of: dict[int, list[AbortedTransaction]] = {}
        self.undecided: list[UndecidedTransaction] = []
        self.offset = 0  # all batches before it are applied

    # -- repetitions

    def repeated(self, header: BatchHeader, state: ProducerState | None) -> SentBatch | None:
        """Return the batch that this one repeats, if any. Raises ProducerFenced, OutOfSequence, InvalidTransaction."""
        if state is None:
            return None
        found = repeated_batch(header, state.epoch, state.batches)
        if found is None and state.opened is not None and not header.is_transactional:
            raise InvalidTransaction(str(header.producer_id), "it is open, and the batch is not part of it")
        return found

    # -- applying batches

    def note(self, header: BatchHeader, marker: Marker | None = None, heard_ms: int = 0) -> None:
        """Apply the next batch of the log; `marker` is given for a control batch."""
        self.offset = header.next_offset
        if header.producer_id == NO_PRODUCER:
            return
        known = self.states.get(header.producer_id)
        self.put(header.producer_id, following_state(known, header, heard_ms))
        if marker is Marker.ABORT and known is not None and known.opened is not None:
            stable = self.stable(header.next_offset)
            self.add_aborted(AbortedTransaction(header.producer_id, known.opened, header.last_offset, stable))

    def put(self, id: int, state: ProducerState) -> None:
        """Set the state of a producer."""
        self.states[id] = state
        if state.opened != self._open.get(id):  # replaced, not changed: other threads may be reading it
            others = {each: offset for each, offset in self._open.items() if each != id}
            self._open = others if state.opened is None else {**others, id: state.opened}

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction, the one that ended last."""
        self._aborted_of.setdefault(aborted.producer_id, []).append(aborted)
        self.aborted.append(aborted)

    def doubt(self, last_offset: int, where: str, position: int, *, only: int | None = None) -> None:
        """Note that markers of open transactions, or one producer's, may be damaged: these end, and are not served."""
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
        """Return the aborted transactions that have offsets in a range."""
        found, aborted = [], self.aborted
        for at in range(bisect_left(aborted, low, key=_last_offset), len(aborted)):
            if aborted[at].first_offset < high:
                found.append(aborted[at])
            if aborted[at].stable >= high:
                break
        return found

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        own = self._aborted_of.get(header.producer_id)
        if own is None:
            return False
        at = bisect_left(own, header.base_offset, key=_last_offset)
        return at < len(own) and own[at].first_offset <= header.base_offset

    def undecided_in(self, low: int, high: int) -> UndecidedTransaction | None:
        """Return the first transaction in doubt that has offsets in a range."""
        found = [each for each in self.undecided if each.first_offset < high and each.last_offset >= low]
        return min(found, key=attrgetter("first_offset"), default=None)

    def undecided_of(self, header: BatchHeader) -> UndecidedTransaction | None:
        """Return the transaction of a batch if its outcome is in doubt."""
        if not self.undecided or not header.is_transactional or header.is_control:
            return None
        own = (each for each in self.undecided if each.producer_id == header.producer_id)
        return next((e for e in own if e.first_offset <= header.base_offset <= e.last_offset), None)

    # -- forgetting

    def forget_before(self, start: int) -> None:
        """Forget aborted transactions whose records are all trimmed."""
        gone = bisect_left(self.aborted, start, key=_last_offset)
        if gone:
            kept = self.aborted[gone:]
            of: dict[int, list[AbortedTransaction]] = {}
            for each in kept:
                of.setdefault(each.producer_id, []).append(each)
            self.aborted, self._aborted_of = kept, of
        self.undecided = [each for each in self.undecided if each.last_offset >= start]

    def forget_silent(self, before_ms: int) -> None:
        """Forget producers silent since a time, unless they have an open transaction."""
        if any(each.heard_ms < before_ms for each in self.states.values()):
            self.states = {
                id: each for id, each in self.states.items() if each.heard_ms >= before_ms or each.opened is not None
            }

    @property
    def silent(self) -> int:
        """The number of producers without an open transaction: those that may be forgotten."""
        return len(self.states) - len(self._open)

    def forget_many(self, kept: int) -> None:
        """Forget producers without an open transaction, except the most recent ones."""
        silent = [  # by offset: clocks may go back, and after a crash all have the same time
            (each.batches[-1].last_offset if each.batches else -1, id)
            for id, each in self.states.items()
            if each.opened is None
        ]
        gone = {id for _, id in sorted(silent)[: max(0, len(silent) - kept)]}
        self.states = {id: each for id, each in self.states.items() if id not in gone}


class Snapshot(msgspec.Struct):
    """The state before `offset`. Producers: id, epoch, open since, times of last record and last batch, batches."""

    offset: int
    producers: list[tuple[int, int, int | None, int, int, list[SentBatch]]]
    aborted: list[AbortedTransaction]
    undecided: list[UndecidedTransaction]


_decode = msgspec.json.Decoder(Snapshot).decode


def snapshot_name(offset: int) -> str:
    """Return the file name."""
    return f"{offset:020}{SNAPSHOT_SUFFIX}"


def write_snapshot(disk: Disk, folder: Path, producers: Producers) -> None:
    """Write the present state, and remove all snapshots but the last two."""
    rows = [
        (id, each.epoch, each.opened, each.last_ms, each.heard_ms, list(each.batches))
        for id, each in producers.states.items()
    ]
    state = Snapshot(producers.offset, rows, producers.aborted, producers.undecided)
    content = msgspec.json.encode(state)
    write_whole(disk, folder / snapshot_name(producers.offset), _HEAD.pack(_MAGIC, crc32c(content)) + content)
    for offset in snapshot_offsets(disk, folder)[:-2]:
        disk.remove(folder / snapshot_name(offset))


def newest_snapshot(disk: Disk, folder: Path, end: int) -> Producers:
    """Return the state of the newest usable snapshot at or before an end; empty if there is none."""
    for offset in reversed(snapshot_offsets(disk, folder)):
        if offset <= end:
            found = _read(disk, folder / snapshot_name(offset), offset)
            if found is not None:
                return found
    return Producers()


def snapshot_offsets(disk: Disk, folder: Path) -> list[int]:
    """Return the offsets of the snapshots in a folder."""
    stems = [name.removesuffix(SNAPSHOT_SUFFIX) for name in disk.names(folder) if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted(int(each) for each in stems if each.isdecimal())


def _read(disk: Disk, path: Path, offset: int) -> Producers | None:
    content = read_whole(disk, path)
    if content is None or len(content) < _HEAD.size:
        return None
    magic, crc = _HEAD.unpack_from(content)
    if magic != _MAGIC or crc32c(content[_HEAD.size :]) != crc:
        return None
    try:
        found = _decode(content[_HEAD.size :])
    except msgspec.MsgspecError:
        return None
    if found.offset != offset:
        return None
    producers = Producers()
    producers.offset, producers.undecided = offset, found.undecided
    for id, epoch, opened, last_ms, heard_ms, batches in found.producers:
        producers.put(id, ProducerState(epoch, batches, opened, last_ms, heard_ms))
    for each in found.aborted:
        producers.add_aborted(each)
    return producers
