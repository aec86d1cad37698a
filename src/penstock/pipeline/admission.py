"""How many bytes of what waits a micro-batch takes. No I/O of its own.

A batch never has more than the bound, unless its only record is larger. Partitions share the bound equally;
where a share is too small for their next records, fewer of them share what is left. The partition that is
least far always gets its next record: so one with a record that fits no share is not passed over for ever,
since the others move on until it is the least.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .offsets import Ends, Piece


class AdmittedPiece(NamedTuple):
    """The beginning of a piece: up to where it goes, and its bytes."""

    end: int
    bytes: int


# For pieces, and the most bytes of each, the longest beginning that fits; for None the first record of each.
Fit = Callable[[Sequence[Piece], int | None], Mapping[int, AdmittedPiece]]
_PACKED = 8  # less than this part of the bound is not shared out any more


def admit_bytes(starts: Ends, ends: Ends, at_most: int, fit: Fit) -> Ends:
    """Return ends that let in records of at most so many bytes, or one record."""
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
