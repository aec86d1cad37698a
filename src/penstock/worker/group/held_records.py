"""The records of a group that are in memory."""

from msgspec.structs import force_setattr

from penstock.model.record import Record

from ..handler import Handler
from . import bounds
from .partition_work import PartitionWork


class HeldRecords:
    """Records that are read and not finished, each with its handler, and the number of bytes they take.

    They are stored in their partitions (`PartitionWork.records`), where all parts may look them up; only this
    class adds and removes them, so that the sum stays right. One thread, the delivery loop's.
    """

    def __init__(self) -> None:
        self._bytes = 0

    def is_full(self) -> bool:
        """Return whether reading must wait until some records are finished."""
        return self._bytes > bounds.HELD_BYTES

    def keep(self, work: PartitionWork, offset: int, record: Record, handler: Handler) -> None:
        """Keep a record until it is handed out, and set its handler's id in it."""
        force_setattr(record, "handler_id", handler.id)  # a copy would cost more, for every record
        work.records[offset] = (record, handler)
        self._bytes += _size(record)

    def drop(self, work: PartitionWork, offset: int) -> None:
        """Forget a record, if it is held."""
        known = work.records.pop(offset, None)
        if known is not None:
            self._bytes -= _size(known[0])

    def drop_all(self, work: PartitionWork) -> None:
        """Forget the records of a partition that is no longer ours."""
        for offset in list(work.records):
            self.drop(work, offset)


def _size(record: Record) -> int:
    """Return about how many bytes a record takes: headers are held like values."""
    size = len(record.data or b"")
    if record.raw_headers:
        for name, value in record.raw_headers:
            size += len(name) + len(value or b"")
    return size
