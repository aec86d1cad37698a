"""Records of a log in files, changed behind its back as nothing but damage does: for tests of holes."""

from collections.abc import Mapping
from functools import partial

from penstock.log.contract import Topic
from penstock.log.files.log import FileLog
from penstock.log.files.partition import PartitionLog
from penstock.log.files.rewriting import rewrite
from penstock.wire.kafka.record_batch import BatchHeader, Compression
from penstock.wire.kafka.records import decode_records, emptied, encode_records, resealed


def change_records(
    log: FileLog, topic: Topic, values: Mapping[int, bytes | None], partitions: set[int] | None = None
) -> None:
    """Give records another value, by offset; None: lose them. All partitions unless some are named."""
    for number in log.ends(topic):
        if partitions is None or number in partitions:
            partition = log.view(topic, number)
            assert isinstance(partition, PartitionLog)
            log.writer.call(partial(_change, partition, values))


def _change(partition: PartitionLog, values: Mapping[int, bytes | None]) -> None:
    partition.roll()
    for segment in partition.segments[:-1]:
        if any(segment.base_offset <= each < segment.end_offset for each in values):
            rewrite(partition, segment, partial(_changed, values))


def _changed(values: Mapping[int, bytes | None], header: BatchHeader, batch: memoryview) -> bytearray | None:
    if header.is_control or not any(header.base_offset <= each < header.next_offset for each in values):
        return None
    records = []
    for each in decode_records(batch):
        value = values.get(each.offset, each.value)
        if each.offset not in values or value is not None:
            records.append(each._replace(value=value))
    if not records:
        return emptied(header)
    return resealed(header, encode_records(records, header.base_offset, codec=Compression(header.codec)))
