"""A topic as planning sees it: where its partitions begin and end, and how much of it makes a batch.

Used in the driver, never in a task.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from penstock.database.naming import Names
from penstock.errors import InvalidOption, RecordsRemoved, StoreError, StoreUnsupported, UnknownTopic
from penstock.log.contract import Bounds, Growth, LogIdentity, OffsetRange, Position, Topic
from penstock.log.entry import ENTRY_BYTES, Entry
from penstock.log.store import open_store

from ..history import LogNow, log_now
from ..offsets import Ends, Piece, before_starts, describe_pieces
from .options import LATEST, OTHERS, ReadingPlace


class AdmittedPiece(NamedTuple):
    """The beginning of a piece: its end and its bytes."""

    end: int
    bytes: int


# From pieces and the most bytes of each to the longest beginnings that fit; for None, to the first records.
Fit = Callable[[Sequence[Piece], int | None], Mapping[int, AdmittedPiece]]
_PACKED = 8  # a rest smaller than this part of the bound is not shared out


def admit_bytes(starts: Ends, ends: Ends, at_most: int, fit: Fit) -> Ends:
    """Return ends that admit records up to a number of bytes, or one record.

    A batch never exceeds the bound, unless its only record is larger. Partitions share the bound equally;
    where a share is too small for their next records, fewer of them share the rest. The partition with the
    lowest offset always gets its next record: so a partition whose record fits no share does not starve,
    since the others move on until its offset is the lowest.
    """
    pieces = [Piece(p, starts.get(p, 0), end) for p, end in ends.items() if end > starts.get(p, 0)]
    waiting = sorted(pieces, key=lambda piece: piece.start)
    if not waiting:
        return ends
    admitted = ends | {piece.partition: piece.start for piece in waiting}

    def take(some: Sequence[Piece], share: int | None) -> int:
        taken = fit(some, share)
        admitted.update({partition: each.end for partition, each in taken.items()})
        return sum(each.bytes for each in taken.values())

    left, sharing = at_most - take(waiting[:1], None), len(waiting)
    while sharing and left > at_most // _PACKED:
        rest = [Piece(p, admitted[p], end) for p, _, end in waiting if admitted[p] < end][:sharing]
        if not rest:
            break
        left -= take(rest, left // len(rest))
        sharing //= 2
    return admitted


logger = logging.getLogger("penstock.pipeline")
_FIRST_LOOK, _FURTHER = 128, 4  # records of a piece to read first, and the factor for each further read
_EARLIEST_MARK, _LATEST_MARK = -2, -1  # as in Spark's Kafka source


@dataclass(frozen=True, slots=True)
class Heads:
    """The topic and the bounds of all its partitions at one moment, and its growths, then or later."""

    topic: Topic
    bounds: Mapping[int, Bounds]
    growths: Sequence[Growth] = ()

    def starts(self) -> Ends:
        """Return the first offset kept of each partition."""
        return {partition: bounds.start for partition, bounds in self.bounds.items()}

    def ends(self) -> Ends:
        """Return the next offset to be given in each partition."""
        return {partition: bounds.end for partition, bounds in self.bounds.items()}


class TopicView:
    """One topic of one log. Each call reads the log again."""

    def __init__(self, url: str, names: Names, topic: str) -> None:
        if url.startswith("memory://"):
            raise StoreUnsupported("a pipeline", "a log that other processes can reach: in SQLite, PostgreSQL or files")
        self._store = open_store(url, names)
        self._log = self._store.log
        self._name = topic
        self.stays_open = self._store.is_one  # whether it may stay open between uses

    def is_current(self) -> bool:
        """Return whether the store may still be used: not if another file has its name now."""
        with suppress(StoreError):
            self._store.database.look(lambda tx: None)
            return True
        return False

    def identity(self) -> LogIdentity:
        """Return the id of the log, assigned when its tables were made, and its incarnation."""
        return self._log.identity()

    def topic(self) -> Topic:
        """Return the topic. Raises UnknownTopic."""
        return self._log.topic(self._name)

    def heads(self) -> Heads:
        """Return the topic's bounds. Raises UnknownTopic."""
        topic = self.topic()
        bounds = self._log.all_bounds(topic)
        if not bounds:
            raise UnknownTopic(self._name)
        return Heads(topic, bounds, self._log.growths(topic))

    def present(self, heads: Heads, places: Collection[Position]) -> LogNow:
        """Return the state of the log now, with the marks of the records at some positions."""
        return log_now(self._log, heads.topic, places, heads.bounds)

    def fitting(self, topic: Topic, pieces: Sequence[Piece], share: int | None) -> dict[int, AdmittedPiece]:
        """Return how much of each piece fits into some bytes, or its first record; the cost grows with the result."""
        found = dict[int, AdmittedPiece]()
        left, wanted = list(pieces), share or 1
        step = min(wanted // ENTRY_BYTES + 1, _FIRST_LOOK)
        while left:
            looks = [piece._replace(end=min(piece.end, piece.start + step)) for piece in left]
            starts = {look.partition: look.start for look in looks}
            ends = self._log.reach(topic, [OffsetRange(*each) for each in looks], [wanted] * len(looks))
            sizes = self._sizes(topic, starts, ends)
            full = {p for p, size in sizes.items() if size >= wanted}
            # The record that reaches the share may go beyond it.
            over = {p: ends[p] - 1 for p in full if share is not None and sizes[p] > share}
            ends, sizes = ends | over, sizes | self._sizes(topic, starts, over)
            found |= {p: AdmittedPiece(end, sizes[p]) for p, end in ends.items()}
            shorter = (piece for piece, look in zip(left, looks, strict=True) if look.end < piece.end)
            left = [piece for piece in shorter if piece.partition not in full]
            step *= _FURTHER
        return found

    def _sizes(self, topic: Topic, starts: Ends, ends: Ends) -> dict[int, int]:
        ranges = [OffsetRange(p, starts[p], end) for p, end in ends.items()]
        return self._log.sizes(topic, ranges) if ranges else {}

    def held(self, topic: Topic, reader: str) -> Ends:
        """Return the offsets from which on a reader holds retention back; none if it does not."""
        return self._log.holds(topic).get(reader, {})

    def hold(self, topic: Topic, reader: str, ends: Ends) -> None:
        """Make retention keep the records from some offsets on for a reader; for no offsets, release them."""
        self._log.hold(reader, topic, ends)

    def entries(self, topic: Topic, ranges: Sequence[OffsetRange], max_bytes: int) -> Sequence[Entry]:
        """Return records of some ranges, up to a number of bytes."""
        return self._log.read_ranges(topic, ranges, max_bytes=max_bytes).entries

    def resolve(self, place: ReadingPlace, heads: Heads, option: str) -> Ends:
        """Return the current offsets of a reading position. Raises InvalidOption."""
        if place.timestamp_ms is not None:
            general = self._offsets_at(heads.topic, place.timestamp_ms)
        else:
            general = heads.ends() if place.otherwise == LATEST else heads.starts()
        if not place.offsets:
            return general
        named = dict(place.offsets)
        others = named.pop(OTHERS, None)
        if others is not None:
            named = dict.fromkeys(heads.bounds, others) | named
        unknown = sorted(named.keys() - heads.bounds.keys())
        if unknown:
            wanted = f"one of the partitions 0 to {heads.topic.partitions - 1}"
            raise InvalidOption(option, unknown[0], wanted)
        for partition, offset in named.items():
            bounds = heads.bounds[partition]
            general[partition] = {_EARLIEST_MARK: bounds.start, _LATEST_MARK: bounds.end}.get(offset, offset)
            if general[partition] > bounds.end:
                raise InvalidOption(option, offset, f"at most {bounds.end}, the end of partition {partition}")
        return general

    def _offsets_at(self, topic: Topic, timestamp_ms: int) -> Ends:
        return self._log.offsets_at(topic, timestamp_ms)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()


def holds(heads: Heads, place: Position) -> bool:
    """Return whether a position is within the bounds of a topic."""
    bounds = heads.bounds.get(place.partition)
    return bounds is not None and bounds.start <= place.offset < bounds.end


def removed(starts: Mapping[int, int], ends: Mapping[int, int], kept: Mapping[int, int]) -> list[Piece]:
    """Return the pieces of a range that are no longer kept."""
    pieces = (Piece(partition, start, ends.get(partition, start)) for partition, start in sorted(starts.items()))
    return before_starts((piece for piece in pieces if piece.start < piece.end), kept)


def report_removed(topic: str, lost: Sequence[Piece], *, fail: bool) -> None:
    """Raise RecordsRemoved, or log that a query goes on without the lost records."""
    if lost and fail:
        raise RecordsRemoved(topic, describe_pieces(lost))
    if lost:
        logger.warning(
            "topic %s no longer holds %s; going on without them (failOnDataLoss=false)", topic, describe_pieces(lost)
        )
