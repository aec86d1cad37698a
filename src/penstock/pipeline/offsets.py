"""Positions in a topic: ends, the range of a batch, its division into tasks, and sets of positions.

Values only, no I/O. An offset in Spark's checkpoint is the range of the batch that ends there: starts as well as ends.
So a batch that runs again after a crash has the same range, even the first one, whose start Spark does not store; and a
sink needs only the checkpoint to know the range of a batch. Of several topics it is `{"topics": [range, …]}`.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from penstock.errors import MissingExtra
from penstock.log.contract import Growth, Position
from penstock.log.topics import former_places

try:
    import numpy as np
    import numpy.typing as npt
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

Ends = dict[int, int]  # partition → the offset after the last one


class Piece(NamedTuple):
    """Records of one partition: from `start` to before `end`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Range:
    """A batch's range in a topic: for each partition from `starts` to before `ends`."""

    log_id: str
    topic: str
    topic_id: int
    starts: Ends
    ends: Ends
    # The ends of a batch that another query has begun to write into several tables. It comes next, unchanged, because
    # some of the tables hold it already.
    pending: Ends | None = None
    incarnation: int | None = None  # that of the log, if it is known
    marks: Mapping[int, int] = field(default_factory=dict)  # of the last record before each end, to recognise it

    def pieces(self) -> list[Piece]:
        """Return the pieces to read, by partition."""
        return [
            Piece(partition, self.starts[partition], end)
            for partition, end in sorted(self.ends.items())
            if end > self.starts[partition]
        ]

    def moves(self, partition: int) -> bool:
        """Return whether the range has offsets of a partition."""
        return self.ends[partition] > self.starts[partition]

    def count(self) -> int:
        """Return how many offsets the range spans."""
        return sum(piece.end - piece.start for piece in self.pieces())

    def next(self, ends: Mapping[int, int]) -> Self:
        """Return the range from the end of this one, where new partitions begin at 0, to ends never below it."""
        starts = dict.fromkeys(sorted(ends), 0) | self.ends
        reached = {partition: max(start, ends.get(partition, start)) for partition, start in starts.items()}
        return replace(self, starts=starts, ends=reached, pending=None)

    def to_json(self) -> dict[str, Any]:
        """Return the form that Spark stores: offsets as lists, for partitions are numbered without gaps."""
        form: dict[str, Any] = {
            "log": self.log_id,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "starts": _listed(self.starts),
            "ends": _listed(self.ends),
        }
        if self.incarnation is not None:
            form["incarnation"] = self.incarnation
        if self.marks:
            form["marks"] = [self.marks.get(partition, 0) for partition in range(len(self.ends))]
        return form if self.pending is None else form | {"pending": _listed(self.pending)}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Self:
        """Return the range of a stored form."""
        pending = form.get("pending")
        return cls(
            form["log"],
            form["topic"],
            form["topic_id"],
            _numbered(form["starts"]),
            _numbered(form["ends"]),
            None if pending is None else _numbered(pending),
            form.get("incarnation"),
            {partition: mark for partition, mark in enumerate(form.get("marks", ())) if mark},
        )


def _listed(ends: Ends) -> list[int]:
    return [ends[partition] for partition in range(len(ends))]


def _numbered(ends: Sequence[int]) -> Ends:
    return dict(enumerate(ends))


def before_barriers(starts: Ends, ends: Ends, growths: Sequence[Growth]) -> Ends:
    """Return ends that exclude partitions whose keys were in others before, until those have been read.

    So a batch ends where the topic grew: later records, in the new partitions, go into a later batch. Where
    an end is before the growth, as in a replayed range, reading up to that end is enough.
    """

    def is_read(place: Position) -> bool:
        return starts.get(place.partition, 0) >= min(place.offset, ends.get(place.partition, place.offset))

    return {
        partition: end if all(map(is_read, former_places(growths, partition))) else starts.get(partition, 0)
        for partition, end in ends.items()
    }


def admit(starts: Ends, ends: Ends, at_most: int) -> Ends:
    """Return ends that admit at most that many records; each partition gets its share of those waiting."""
    starts = dict.fromkeys(ends, 0) | starts
    waiting = {partition: max(0, ends.get(partition, start) - start) for partition, start in starts.items()}
    total = sum(waiting.values())
    if total <= at_most:
        return {partition: starts[partition] + count for partition, count in waiting.items()}
    shares = {partition: count * at_most // total for partition, count in waiting.items()}
    left = at_most - sum(shares.values())  # fewer than there are partitions that wait
    by_remainder = sorted(waiting, key=lambda partition: -(waiting[partition] * at_most % total))
    for partition in by_remainder[:left]:
        shares[partition] += 1
    return {partition: starts[partition] + count for partition, count in shares.items()}


def split(pieces: Iterable[Piece], tasks: int, *, cut: bool) -> list[list[Piece]]:
    """Assign pieces to tasks about equally: a partition to one, in order; `cut` splits those above a task's share."""
    whole = list(pieces)
    total = sum(piece.end - piece.start for piece in whole)
    if cut:
        size = max(1, -(-total // tasks))
        whole = [
            Piece(partition, begin, min(begin + size, end))
            for partition, start, end in whole
            for begin in range(start, end, size)
        ]
    loads: list[tuple[int, int, list[Piece]]] = [(0, number, []) for number in range(tasks)]
    for piece in sorted(whole, key=lambda piece: piece.start - piece.end):
        load, number, given = loads[0]
        given.append(piece)
        heapq.heapreplace(loads, (load + piece.end - piece.start, number, given))
    return [sorted(given) for _, _, given in sorted(loads, key=lambda task: task[1]) if given]


def before_starts(pieces: Iterable[Piece], starts: Mapping[int, int]) -> list[Piece]:
    """Return the parts of pieces that lie before the starts of their partitions."""
    kept = ((piece, starts.get(piece.partition, 0)) for piece in pieces)
    return [piece._replace(end=min(piece.end, start)) for piece, start in kept if piece.start < start]


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces sorted, with overlapping and adjacent ones merged."""
    return list(merged(sorted(pieces)))


def merged(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield pieces with overlapping and adjacent ones, which come one after another, merged."""
    run: Piece | None = None
    for piece in pieces:
        if run is not None and run.partition == piece.partition and run.start <= piece.start <= run.end:
            run = run._replace(end=max(piece.end, run.end))
            continue
        if run is not None:
            yield run
        run = piece
    if run is not None:
        yield run


def describe_pieces(pieces: Iterable[Piece], at_most: int = 4) -> str:
    """Return pieces in words, the first few."""
    listed = list(pieces)
    words = [f"partition {piece.partition}: {piece.start} to before {piece.end}" for piece in listed[:at_most]]
    if len(listed) > at_most:
        words.append(f"and {len(listed) - at_most} more partitions")
    return ", ".join(words)


Form = dict[str, Any]
_TOPICS = "topics"
_KEYS = {"log", "topic", "topic_id", "starts", "ends"}


def by_topic(form: Mapping[str, Any]) -> dict[str, Form]:
    """Return the ranges in an offset, by topic; also for the form of a single topic."""
    return {each["topic"]: each for each in (form[_TOPICS] if _TOPICS in form else [dict(form)])}


def of_topics(forms: list[Form]) -> Form:
    """Return the offset with the ranges of several topics."""
    return {_TOPICS: forms}


def is_ours(form: Any) -> bool:
    """Return whether an offset in a checkpoint comes from our source."""
    if not isinstance(form, dict):
        return False
    if isinstance(form.get(_TOPICS), list):
        return all(is_ours(each) and _TOPICS not in each for each in form[_TOPICS])
    return form.keys() >= _KEYS


def standing(form: Form) -> Form:
    """Return the empty range of a batch without records of a topic."""
    place = Range.from_json(form)
    return replace(place, starts=place.ends).to_json()


Numbers = npt.NDArray[np.int64]
PLACE = ("partition", "offset")  # the columns with the position of a row's record
_BLOCK = 1 << 16


class Places:
    """A set of positions as bits. `rows` counts all added rows, `distinct` each position once.

    A million positions take 128 KB, in whatever order they come; an isolated one costs a block. Ten million
    in a Python set would take gigabytes.
    """

    def __init__(self) -> None:
        self.rows = self.distinct = 0
        self._blocks: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}

    def add(self, partitions: Numbers, offsets: Numbers) -> None:
        """Add the positions of some rows."""
        self.rows += len(offsets)
        order = np.lexsort((offsets, partitions))
        partitions, offsets = partitions[order], offsets[order]
        numbers = offsets // _BLOCK
        breaks = np.flatnonzero((np.diff(partitions) != 0) | (np.diff(numbers) != 0)) + 1
        for group in np.split(np.arange(len(order)), breaks):
            if len(group):
                first = group[0]
                self._add(int(partitions[first]), int(numbers[first]), offsets[group] % _BLOCK)

    def _add(self, partition: int, number: int, within: Numbers) -> None:
        block = self._blocks.get((partition, number))
        bits = np.zeros(_BLOCK, np.uint8) if block is None else np.unpackbits(block)
        before = int(bits.sum())
        bits[within] = 1
        self.distinct += int(bits.sum()) - before
        self._blocks[partition, number] = np.packbits(bits)

    def has(self, partitions: Numbers, offsets: Numbers) -> npt.NDArray[np.bool_]:
        """Return which of some positions are in the set."""
        found = np.zeros(len(offsets), np.bool_)
        numbers = offsets // _BLOCK
        for partition, number in {*zip(partitions.tolist(), numbers.tolist(), strict=True)}:
            block = self._blocks.get((partition, number))
            if block is not None:
                here = np.flatnonzero((partitions == partition) & (numbers == number))
                found[here] = np.unpackbits(block)[offsets[here] % _BLOCK]
        return found

    def runs(self) -> Iterator[Piece]:
        """Return the positions in order, as runs without gaps."""
        return merged(
            Piece(partition, start, end)
            for (partition, number), block in sorted(self._blocks.items(), key=lambda each: each[0])
            for start, end in _runs(np.flatnonzero(np.unpackbits(block)) + number * _BLOCK)
        )


def numbers_of(places: Sequence[Sequence[Any]]) -> Iterator[Numbers]:
    """Return partitions and offsets, the first two fields of each place, as columns."""
    return (np.array([place[number] for place in places], np.int64) for number in range(2))


def numbers_in(rows: Any) -> list[Numbers]:
    """Return the partitions and offsets of Arrow rows as columns; -1 where a row has none."""
    columns = (rows.column(name).fill_null(-1).cast("int64") for name in PLACE)
    return [column.to_numpy(zero_copy_only=False) for column in columns]


def _runs(offsets: Numbers) -> Iterator[tuple[int, int]]:
    for group in np.split(offsets, np.flatnonzero(np.diff(offsets) != 1) + 1):
        yield int(group[0]), int(group[-1]) + 1
