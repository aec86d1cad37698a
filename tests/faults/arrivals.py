"""What handlers noted in a fault run, and the rules it must keep. Every breach is one sentence.

Its first word names the kind: `lost`, `inverted`, `unmarked`, `overmarked`.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from os import getpid
from pathlib import Path
from typing import NamedTuple

from penstock import Record

TOPIC = "faults"
GROUPS = ("plain", "loop", "batch", "exact", "retried")
URL, NOTES = "FAULTS_URL", "FAULTS_NOTES"  # how a worker is told of its store, and where to write
AHEAD = "FAULTS_AHEAD"  # and of a file that says by how many seconds the time of day is wrong
HELD = "FAULTS_HELD"  # and of the folder of files that hold threads
KILLER = "killer"  # the type of a record that ends its process
BATCH = 16  # records of a partition that may come marked by mistake, for each owner it lost

Place = tuple[int, int]  # partition and offset


class Arrival(NamedTuple):
    """One delivery as it began: when (by a clock all processes share), in which process, to whom, of what."""

    at: int
    pid: int
    group: str
    partition: int
    offset: int
    fence: int
    attempt: int
    redelivered: bool
    key: str

    @classmethod
    def of(cls, group: str, record: Record) -> Arrival:
        """Return the delivery of a record that begins now."""
        assert record.partition is not None
        assert record.offset is not None
        return cls(
            time.monotonic_ns(),
            getpid(),
            group,
            record.partition,
            record.offset,
            record.fence or 0,
            record.attempt,
            record.redelivered,
            record.key or "",
        )

    @property
    def place(self) -> Place:
        """Where the record stands."""
        return self.partition, self.offset

    def text(self) -> str:
        """Return it as a line."""
        return " ".join(str(int(each) if isinstance(each, bool) else each) for each in self) + "\n"


def read(path: Path) -> list[Arrival]:
    """Return all deliveries by time."""
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted(_parsed(line) for line in lines)


def _parsed(line: str) -> Arrival:
    at, pid, group, *numbers, redelivered, key = line.split()
    partition, offset, fence, attempt = map(int, numbers)
    return Arrival(int(at), int(pid), group, partition, offset, fence, attempt, redelivered == "1", key)


def breaches(arrivals: Iterable[Arrival], expected: Collection[Place], groups: Collection[str]) -> list[str]:
    """Return each breach of P1, P2 and P6 in what some groups were given of these records."""
    by_group: dict[str, list[Arrival]] = defaultdict(list)
    for each in arrivals:
        by_group[each.group].append(each)
    found: list[str] = []
    for group in groups:
        there = {each.place for each in by_group[group]}
        found += [f"lost: {group} was never given {place}" for place in sorted(set(expected) - there)]
        found += _disorder(by_group[group])
        found += _overmarked(group, by_group[group])
    return found


def summary(arrivals: Collection[Arrival]) -> str:
    """Return how many deliveries there were, and of them those that came again, with and without a mark."""
    there, counts = dict[tuple[str, Place], int](), Counter[str]()
    for each in arrivals:
        fence = there.get((each.group, each.place))
        if fence is None:
            counts["falsely marked"] += each.redelivered
        elif each.fence >= fence:
            counts["again"] += 1
            counts["unmarked"] += not each.redelivered
        there[each.group, each.place] = max(each.fence, fence or 0)
    named = ", ".join(f"{counts[name]} {name}" for name in ("again", "unmarked", "falsely marked"))
    return f"{len(arrivals)} deliveries: {named}"


def kinds(found: Iterable[str]) -> Counter[str]:
    """Return how many breaches of each kind there are."""
    return Counter(sentence.partition(":")[0] for sentence in found)


def _disorder(arrivals: Iterable[Arrival]) -> Iterator[str]:
    """First deliveries of a key are in order; whoever owns it later says that a record may come again."""
    last_new: dict[str, int] = defaultdict(lambda: -1)
    before: dict[Place, Arrival] = {}
    for each in arrivals:
        former = before.get(each.place)
        if former is None:
            if each.offset < last_new[each.key]:
                yield f"inverted: {each} came first after offset {last_new[each.key]} of its key"
            last_new[each.key] = max(each.offset, last_new[each.key])
        elif each.fence >= former.fence and not each.redelivered:
            yield f"unmarked: {each} after {former}"
        if former is None or each.fence >= former.fence:  # one that was stopped may write down a stale one
            before[each.place] = each


def _overmarked(group: str, arrivals: Iterable[Arrival]) -> Iterator[str]:
    """Few records that nobody was given before say that they come again, at each change of owners."""
    there = set[Place]()
    fences: dict[int, set[int]] = defaultdict(set)
    wrongly: Counter[int] = Counter()
    for each in arrivals:
        fences[each.partition].add(each.fence)
        wrongly[each.partition] += each.redelivered and each.place not in there
        there.add(each.place)
    for partition, count in wrongly.items():
        if count > BATCH * max(1, len(fences[partition]) - 1):
            yield f"overmarked: {group} was given {count} new records of {partition} as if they came again"
