"""Limits a micro-batch by bytes. No I/O of its own.

A batch never exceeds the bound, unless its only record is larger. Partitions share the bound equally; where a
share is too small for their next records, fewer of them share the rest. The partition with the lowest offset
always gets its next record: so a partition whose record fits no share does not starve, since the others move
on until its offset is the lowest.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..offsets import Ends, Piece


class AdmittedPiece(NamedTuple):
    """The beginning of a piece: its end and its bytes."""

    end: int
    bytes: int


# From pieces and the most bytes of each to the longest beginnings that fit; for None, to the first records.
Fit = Callable[[Sequence[Piece], int | None], Mapping[int, AdmittedPiece]]
_PACKED = 8  # a rest smaller than this part of the bound is not shared out


def admit_bytes(starts: Ends, ends: Ends, at_most: int, fit: Fit) -> Ends:
    """Return ends that admit records up to a number of bytes, or one record."""
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
