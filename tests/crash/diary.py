"""What the handlers of worker processes wrote down, and the rules it must keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

WORKED = "worked"  # the topic


class Delivered(NamedTuple):
    """One delivery, as it began: when (by a clock all processes share), in which process, and of what."""

    at: int
    pid: int
    partition: int
    offset: int
    fence: int
    redelivered: bool
    key: str
    type: str

    def text(self) -> str:
        """Return it as a line."""
        return " ".join(str(int(each) if isinstance(each, bool) else each) for each in self) + "\n"


def read(path: Path) -> list[Delivered]:
    """Return all deliveries by time."""
    whole, _, _ = (path.read_text() if path.exists() else "").rpartition("\n")  # the last line may be half written
    lines = whole.splitlines()
    found = []
    for line in lines:
        *numbers, key, type = line.split()
        at, pid, partition, offset, fence, redelivered = map(int, numbers)
        found.append(Delivered(at, pid, partition, offset, fence, bool(redelivered), key, type))
    return sorted(found)


def breaches(deliveries: list[Delivered], disturbed: Collection[int]) -> Iterator[str]:
    """Yield each breach of order (P2), of bounded and marked duplicates (P6) and of single ownership (P5).

    `disturbed` are the processes that were killed or stopped: only what they had may be delivered again.
    """
    owners: dict[tuple[int, int], int] = {}
    first: dict[tuple[int, int], Delivered] = {}
    last_new: dict[str, int] = defaultdict(lambda: -1)
    done: set[tuple[int, int, int]] = set()
    for each in deliveries:
        owner = owners.setdefault((each.partition, each.fence), each.pid)
        if owner != each.pid:
            yield f"P5: epoch {each.fence} of partition {each.partition} is of {owner} and of {each.pid}"
        if (each.partition, each.offset, each.fence) in done:
            yield f"P6: {each} was handed out twice by one owner"
        done.add((each.partition, each.offset, each.fence))
        place = (each.partition, each.offset)
        former = first.get(place)
        if former is None:
            first[place] = each
            if each.offset < last_new[each.key]:
                yield f"P2: {each} came first after offset {last_new[each.key]} of its key"
            last_new[each.key] = max(each.offset, last_new[each.key])
            continue
        if former.pid not in disturbed and each.pid not in disturbed:
            yield f"P6: {each} again after {former}, and nobody had failed"
        if each.fence > former.fence and not each.redelivered:
            yield f"P6: {each} is not marked, though {former}"
