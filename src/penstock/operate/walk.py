"""Walks a partition of the log: all its records in order, a bounded number at a time."""

from collections.abc import Iterator

from penstock.log.contract import LAST_OFFSET, Bounds, Log, OffsetRange, Topic
from penstock.log.entry import Entry

_READ = 1000  # records read together


def walk(log: Log, topic: Topic, partition: int, bounds: Bounds) -> Iterator[list[Entry]]:
    """Yield the records of a partition within bounds, in lists, without values and headers.

    Raises Damaged.
    """
    low, high = bounds
    while low < high:
        wanted = OffsetRange(partition, low, min(high, low + _READ))
        entries, cut = log.read_ranges(topic, [wanted], max_bytes=LAST_OFFSET, bare=True)
        yield list(entries)
        low = (
            entries[-1].offset + 1 if cut else wanted.high
        )  # only damage cuts the read: the next one meets it
