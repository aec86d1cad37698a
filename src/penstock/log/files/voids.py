"""Finds void offsets: assigned offsets without a record for readers, as distinct from missing ones."""

from collections.abc import Iterator

from penstock.errors import Damaged

from .partition_view import PartitionView
from .producers import Producers
from .segment import Segment


def voids_in(view: PartitionView, low: int, high: int, *, compacted: bool) -> list[tuple[int, int]]:
    """Return the void offsets of a range as runs with exclusive ends.

    `compacted`: the topic is or was compacted. Only then may a batch lack records: otherwise they are
    missing.
    """
    runs: list[tuple[int, int]] = []
    before: Segment | None = None
    for segment in view.segments:
        if before is not None and segment.header.before_base == before.base_offset:
            # Refused, or lost in a crash: the header shows it. Behind a lost segment it does not.
            _add(runs, before.end_offset, segment.base_offset, low, high)
        before = segment
        if segment.end_offset <= low or segment.base_offset >= high:
            continue
        try:
            for start, end in _in_segment(view, segment, view.producers, compacted=compacted):
                _add(runs, start, end, low, high)
        except Damaged:
            continue  # later offsets of this segment then count as missing
    return runs


def _in_segment(
    view: PartitionView, segment: Segment, producers: Producers, *, compacted: bool
) -> Iterator[tuple[int, int]]:
    for position, header in segment.headers():
        if header.is_control or producers.is_aborted(header) or (compacted and not header.record_count):
            yield header.base_offset, header.next_offset
        elif not compacted:
            continue
        elif header.record_count <= header.last_offset_delta:  # compaction has removed some
            batch = memoryview(segment.batch(position, header))
            held = {each.offset for each in view.decoded(header, batch)}
            yield from (
                (offset, offset + 1)
                for offset in range(header.base_offset, header.next_offset)
                if offset not in held
            )


def _add(runs: list[tuple[int, int]], start: int, end: int, low: int, high: int) -> None:
    start, end = max(start, low), min(end, high)
    if start >= end:
        return
    if runs and runs[-1][1] == start:
        runs[-1] = (runs[-1][0], end)
    else:
        runs.append((start, end))
