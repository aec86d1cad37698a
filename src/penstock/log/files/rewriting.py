"""Rewrites a closed segment into a new file, verifies it and swaps it in; erases records that way.

Offsets stay, readers are not stopped. The new file has the next generation, so that an index or filter of the old one
is not used for it, and its header holds its own end: the segment behind it describes the old one. Invariant: the
batches of the new file cover the same offsets, one after another, without a gap. Crash: until the rename the old file
is valid, and the next start removes the new one; after it the new one is valid. Readers continue with an open old file.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from uuid import uuid4

from penstock import points
from penstock.errors import Damaged
from penstock.model.limits import ERASED
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.record_batch import BatchHeader, Compression, place_batch, read_header
from penstock.wire.kafka.records import decode_records, encode_records, resealed

from ..entry import Content
from ..kafka_form import kafka_headers
from .disk import BESIDE
from .partition import PartitionLog
from .segment import HEADER_BYTES, Segment
from .tail import whole_until

REWRITTEN = points.declare("rewriting.written", "A rewritten segment is on disk beside the old one.")
SWAPPED = points.declare("rewriting.swapped", "A rewritten segment is in the place of the old one.")

# A new batch over the same offsets, or None: unchanged.
BatchChange = Callable[[BatchHeader, memoryview], Buffer | None]


def rewrite(partition: PartitionLog, segment: Segment, change: BatchChange) -> Segment:
    """Rewrite a closed segment, in the writer's thread; return the new one. Raises Damaged, OSError."""
    new = write_beside(partition, segment, (_changed(*each[1:], change) for each in segment.batches()))
    swap(partition, segment, new)
    return new


def write_beside(partition: PartitionLog, segment: Segment, batches: Iterable[Buffer]) -> Segment:
    """Write a segment's new file, durable and verified. From any thread. Raises Damaged, OSError; then none is left."""
    files = partition.files
    # A unique name: an erasure and a pass of upkeep may rewrite the same segment at once.
    beside = segment.path.with_suffix(f".{uuid4().hex}{BESIDE}")
    try:
        return _written(partition, segment, beside, batches)
    except Exception:
        files.forget(beside)
        files.disk.remove(beside)
        raise


def _written(partition: PartitionLog, segment: Segment, beside: Path, batches: Iterable[Buffer]) -> Segment:
    files = partition.files
    position = HEADER_BYTES
    with closing(files.disk.create(beside)) as file:
        for batch in batches:
            position += file.write(position, [batch])
        header = segment.header._replace(
            generation=segment.header.generation + 1, end_position=position, end_offset=segment.end_offset
        )
        file.write(0, [header.encode()])
        file.sync()
    new = Segment(files, beside, header, partition.index_bytes)
    new.end_position, new.end_offset = position, segment.end_offset
    found = whole_until(new, HEADER_BYTES, new.base_offset)
    if found != (position, segment.end_offset):
        raise Damaged(new.name, *found, "the rewritten segment is not complete")
    points.reach(REWRITTEN)
    return new


def swap(partition: PartitionLog, old: Segment, new: Segment) -> None:
    """Replace a segment by its rewritten file. Runs in the writer's thread. Raises OSError."""
    files = partition.files
    files.forget(new.path)
    files.disk.rename(new.path, old.path)
    files.disk.sync_folder(old.path.parent)
    points.reach(SWAPPED)
    new.path = old.path
    partition.replace(old, new)


def _changed(header: BatchHeader, batch: memoryview, change: BatchChange) -> Buffer:
    changed = change(header, batch)
    if changed is None:
        return batch
    found = read_header(changed)
    assert found.last_offset_delta == header.last_offset_delta, "a rewritten batch covers the same offsets"
    whole = bytearray(changed)
    place_batch(whole, 0, header.base_offset, header.leader_epoch)
    return whole


def erase(partition: PartitionLog, offsets: Collection[int], owner: str | None) -> int:
    """Erase the records at some offsets and return how many. Runs in the writer's thread. Raises Damaged, OSError."""
    wanted = _erasable(partition, offsets, owner)
    if not wanted:
        return 0
    if max(wanted) >= partition.last.base_offset:
        partition.roll()  # only a closed segment is rewritten
    for segment in partition.segments[:-1]:
        if any(segment.base_offset <= each < segment.end_offset for each in wanted):
            rewrite(partition, segment, partial(_erased, wanted))
    return len(wanted)


def _erasable(partition: PartitionLog, offsets: Collection[int], owner: str | None) -> dict[int, str]:
    """Return offset and id of the existing records, not erased yet, of the owner if one is given."""
    found = {}
    for offset in sorted(offsets):
        if offset in found:
            continue
        for entry in partition.entries(offset, offset + 1):
            if entry.type != ERASED and owner in (None, entry.owner):
                found[offset] = entry.id
    return found


def _erased(ids: Mapping[int, str], header: BatchHeader, batch: memoryview) -> bytearray | None:
    """Return a batch without the content of some records (offset to id); None if it has none of them."""
    if header.is_control or not any(header.base_offset <= each < header.next_offset for each in ids):
        return None
    records = []
    for each in decode_records(batch):
        if each.offset in ids:
            content = Content(ids[each.offset], None, ERASED, None, None, each.timestamp_ms)
            each = each._replace(key=None, value=None, headers=kafka_headers(content))
        records.append(each)
    return resealed(header, encode_records(records, header.base_offset, codec=Compression(header.codec)))
