"""Finds a record by its id, without an index on ids.

Our ids hold their creation time, and the sparse time index gives the offset from which on a record of that
time can be; from there a bounded number of records of each partition is searched.
"""

from collections.abc import Sequence

from penstock.database.contract import Rows
from penstock.database.database import Transaction
from penstock.model.partition import partition_for

from ..contract import OffsetRange, Search, Topic
from ..entry import Entry


def find_id(
    tx: Transaction, topic: Topic, id: str, *, since_ms: int | None, walk: int | None, partition: int | None
) -> Search:
    """Look for a record, first in the partition that its id would map to."""
    rows = tx.rows("log", "search_starts", topic_id=topic.id, time_ms=since_ms)
    if partition is not None:
        rows = [row for row in rows if row[0] == partition]
    own = partition_for(topic.partitioner, None, id, topic.partitions)
    rows.sort(key=lambda row: row[0] != own)
    ranges, cut, gone = list[OffsetRange](), False, False
    for number, start, end, mark, first_ms in rows:
        if walk is None:
            low, high = start, end
        else:
            low = max(start, end - walk) if since_ms is None else max(start, mark or 0)
            high = min(end, low + walk)
        cut |= high < end or (since_ms is None and low > start)
        gone |= start > 0 and (since_ms is None or first_ms is None or first_ms >= since_ms)
        if low < high:
            ranges.append(OffsetRange(number, low, high))
    if not ranges:
        return Search(None, cut, gone)
    found = tx.rows("log", "find_id", ranges=ranges_table(ranges), topic_id=topic.id, id=id)
    return Search(Entry(*found[0]) if found else None, cut, gone)


def ranges_table(ranges: Sequence[OffsetRange]) -> Rows:
    """Return ranges as a statement parameter."""
    partitions, lows, highs = (list(column) for column in zip(*ranges, strict=True))
    return Rows(partition=partitions, low=lows, high=highs)
