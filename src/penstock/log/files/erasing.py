"""Erases records: removes key, value, headers and owner tag and keeps their offsets.

Segments are rewritten.
"""

from collections.abc import Collection, Mapping
from functools import partial

from penstock.model.limits import ERASED
from penstock.wire.kafka.record_batch import BatchHeader, Compression
from penstock.wire.kafka.records import NewRecord, decode_records, encode_records, resealed

from ..entry import Content
from ..kafka_form import kafka_headers
from .partition import PartitionLog
from .rewriting import rewrite


def erase(partition: PartitionLog, offsets: Collection[int], owner: str | None) -> int:
    """Erase the records at some offsets and return how many. Runs in the writer's thread.

    Raises Damaged, OSError.
    """
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
        delta = each.offset - header.base_offset
        if each.offset in ids:
            content = Content(ids[each.offset], None, ERASED, None, None, each.timestamp_ms)
            records.append(NewRecord(delta, each.timestamp_ms, None, None, kafka_headers(content)))
        else:
            records.append(NewRecord(delta, each.timestamp_ms, each.key, each.value, each.headers))
    return resealed(header, encode_records(records, codec=Compression(header.codec)))
