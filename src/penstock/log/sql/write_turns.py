"""What waits to be written, by whose it is: sources take turns, so that who pours does not starve the others.

A transaction takes one write of every source, the one first that was served longest ago, and more of each in
turn while that is little. So who comes waits for the transaction under way and its own, unless more sources
pour than one transaction takes; then it waits for its turn. The writes of one source stay in their order.
"""

from collections import deque
from collections.abc import Sequence

from penstock.wire.kafka.record_batch import headers_in

from ..batches import Write, WritesDone

WaitingWrite = tuple[Sequence[Write], WritesDone]

# What a transaction holds before it takes no more: of those who had their turn in it, and of all.
MORE_RECORDS, MOST_RECORDS = 5_000, 20_000
MORE_BYTES, MOST_BYTES = 4 << 20, 16 << 20  # as they come


class WriteTurns:
    """Writes that wait. Not for several threads at once."""

    def __init__(self) -> None:
        self._waiting: dict[object, deque[WaitingWrite]] = {}  # by source, the next to be served first

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, source: object, writes: Sequence[Write], done: WritesDone) -> None:
        """Let a write wait behind those of its source."""
        self._waiting.setdefault(source, deque()).append((writes, done))

    def take(self) -> list[WaitingWrite]:
        """Take what is written together next: one write at least, where there is one."""
        taken: list[WaitingWrite] = []
        served: set[object] = set()
        records = size = 0
        while self._waiting:
            source = next(iter(self._waiting))
            most = (MORE_RECORDS, MORE_BYTES) if source in served else (MOST_RECORDS, MOST_BYTES)
            if taken and (records >= most[0] or size >= most[1]):
                break
            queue = self._waiting.pop(source)
            taken.append(queue.popleft())
            served.add(source)
            if queue:
                self._waiting[source] = queue  # behind all others
            for each in taken[-1][0]:
                size += len(each.batches)
                records += sum(max(0, header.record_count) for _, header in headers_in(each.batches))
        return taken
