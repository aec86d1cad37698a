"""Taking the measures of one call: wall clock, and CPU of this process and of those it watches.

Owns what a measure is called and how it is worked out. Nothing but the call stands between the first and
the last look at our own clocks; other processes are looked at just outside.
"""

import gc
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from bench.errors import NotMeasured
from bench.processes import ProcessTree

T = TypeVar("T")

RECORDS = "records"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one call cost."""

    wall_seconds: float
    own_cpu_seconds: float
    watched_cpu_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def cpu_seconds(self) -> float:
        """Ours and that of the watched processes together."""
        return self.own_cpu_seconds + sum(self.watched_cpu_seconds.values())


class Meter(Protocol):
    """Runs a call and says what it cost."""

    def measure(self, call: Callable[[], T], watched: Mapping[str, Sequence[int]]) -> tuple[Reading, T]:
        """Return what the call cost and what it returned."""


class ProcessMeter:
    """The real meter.

    Our own CPU is user and system time of all threads, and of the children that the call started and waited
    for. A child that was running before is counted from the start only when it is watched.
    """

    def __init__(self, wall: Callable[[], float] = time.perf_counter) -> None:
        self._wall = wall

    def measure(self, call: Callable[[], T], watched: Mapping[str, Sequence[int]]) -> tuple[Reading, T]:
        """Return what the call cost and what it returned.

        Raises NotMeasured when a watched process is gone.
        """
        trees = [ProcessTree(name, pid) for name, pids in watched.items() for pid in pids]
        gc.collect()
        before = [_alive(tree, tree.cpu_seconds()) for tree in trees]
        own_before, wall_before = _own_cpu(), self._wall()
        returned = call()
        wall, own = self._wall() - wall_before, _own_cpu() - own_before
        spent = dict.fromkeys(watched, 0.0)
        for tree, earlier in zip(trees, before, strict=True):
            later = tree.cpu_seconds()
            if later is None and tree.is_our_child:
                own -= earlier  # we waited for it, so all of its life is in our own number: take off the past
            else:
                spent[tree.name] += _alive(tree, later) - earlier
        return Reading(wall_seconds=wall, own_cpu_seconds=own, watched_cpu_seconds=spent), returned


def measures_of(reading: Reading, records: int, extra: Mapping[str, float] | None) -> dict[str, float]:
    """Return all measures of one round by name.

    Raises ValueError when an extra measure has the name of a standard one, or no record was counted.
    """
    added = dict(extra or {})
    count = added.pop(RECORDS, records)
    if count <= 0:
        raise ValueError(f"a round of {count} records has no cost per record")
    measures = {
        "wall_seconds": reading.wall_seconds,
        "cpu_seconds": reading.cpu_seconds,
        "wall_us": reading.wall_seconds / count * 1e6,
        "cpu_us": reading.cpu_seconds / count * 1e6,
        RECORDS: float(count),
    }
    if reading.wall_seconds > 0:
        measures["records_per_second"] = count / reading.wall_seconds
    if reading.watched_cpu_seconds:
        parts = {"own": reading.own_cpu_seconds, **reading.watched_cpu_seconds}
        measures.update({f"{name}_cpu_us": seconds / count * 1e6 for name, seconds in parts.items()})
    for name, value in added.items():
        if name in measures:
            raise ValueError(f"the measure {name} is the harness' own; give yours another name")
        measures[name] = float(value)
    return measures


def _own_cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _alive(tree: ProcessTree, seconds: float | None) -> float:
    if seconds is None:
        raise NotMeasured(f"the process {tree.name} ({tree.pid}) ended during the measurement")
    return seconds
