"""A lake's stream that runs while it is measured: its log, its pace, and when a record can be seen."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import NotMeasured
from bench.lakes import folder, java_pid, spark, watch
from bench.processes import ProcessTree
from bench.run import Run
from bench.stores import sqlite
from penstock import Outbox, Record
from penstock.pipeline.lake import Lake
from penstock.pipeline.query import Job, Running, start_lake

_TOPIC, _PARTITIONS = "trickle", 8
_PATIENCE = 120.0
_LOOK_SECONDS = 0.005
_COMMAND_SECONDS = 0.2  # between two looks of `pipeline lake` at its query


@dataclass
class Stream:
    """A lake that takes what is published, at once. Used by one thread."""

    outbox: Outbox
    running: Running
    to: Path
    java: ProcessTree
    types: int
    batches: int = 0
    published: int = 0
    early_percent: float | None = None

    def publish(self, many: int) -> None:
        """Append records of all types in turn, 1 KB each."""
        numbers = range(self.published, self.published + many)
        self.outbox.log.append(_TOPIC, [_record(number, self.types) for number in numbers])
        self.published += many

    def take(self, many: int) -> float:
        """Publish and wait until all tables hold it; return the seconds that took."""
        began = time.perf_counter()
        self.publish(many)
        while self._marked() < self.published:
            if time.perf_counter() - began > _PATIENCE:
                raise NotMeasured("the lake did not take a batch in two minutes")
            time.sleep(_LOOK_SECONDS)
        taken = time.perf_counter() - began
        self.batches += 1
        self.settle()
        return taken

    def settle(self) -> None:
        """Wait until no batch is under way: Spark still writes its checkpoint when the tables hold one."""
        while self.running.busy:
            time.sleep(_LOOK_SECONDS)
        self.running.progress()

    def idle_percent(self, seconds: float) -> float:
        """Return how much of a core all processes use while nothing comes; we look as the command does."""
        before, began = self._cpu_seconds(), time.perf_counter()
        while time.perf_counter() < began + seconds:
            assert self.running.active
            self.running.progress()
            time.sleep(_COMMAND_SECONDS)
        return 100 * (self._cpu_seconds() - before) / (time.perf_counter() - began)

    def _cpu_seconds(self) -> float:
        return (self.java.cpu_seconds() or 0.0) + time.process_time()

    def _marked(self) -> int:
        lake = Lake(self.to)
        return sum(sum(lake.ends(source).values()) for source in lake.sources())


def stream_of(types: int) -> Callable[[Run], AbstractContextManager[Stream]]:
    """Return the setup that gives a running stream of so many types, begun once per case and warm."""
    return _STREAMS.setdefault(types, lambda run: _setup(run, types))


_STREAMS: dict[int, Callable[[Run], AbstractContextManager[Stream]]] = {}
_OPENED: dict[int, Callable[[Run], AbstractContextManager[Stream]]] = {}


@contextmanager
def _setup(run: Run, types: int) -> Iterator[Stream]:
    opened = _OPENED.setdefault(types, lambda run: _open(run, types))
    stream = run.once(opened)
    watch(run, run.once(spark))
    stream.settle()
    yield stream


@contextmanager
def _open(run: Run, types: int) -> Iterator[Stream]:
    session: Any = run.once(spark)
    outbox = run.once(sqlite).create().outbox
    outbox.log.create_topic(_TOPIC, partitions=_PARTITIONS)
    to = run.once(folder) / f"lake-{types}"
    job = Job(url=outbox.url, topic=_TOPIC, to=to, small_batch_seconds=0)
    stream = Stream(outbox, start_lake(session, job), to, ProcessTree("spark", java_pid(session)), types)
    try:
        for _ in range(5):
            stream.take(max(types, 10))
        yield stream
    finally:
        stream.running.stop()
        outbox.close()


def _record(number: int, types: int) -> Record:
    value = f'{{"n": {number}, "note": "{"x" * 950}"}}'.encode()
    moment = 1_700_000_000_000 + number
    return Record(f"r-{number}", f"k-{number % 100}", value, f"type.{number % types}", (), moment)
