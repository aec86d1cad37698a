"""A lake's stream that runs while it is measured: the command, its log, and when a record can be seen."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.errors import NotMeasured
from bench.lakes import folder
from bench.processes import ProcessTree, Spending
from bench.run import Run
from bench.stores import sqlite
from penstock import Outbox, Record
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.paths import CONTROL

_TOPIC, _PARTITIONS = "trickle", 8
_PATIENCE = 120.0
_LOOK_SECONDS, _REST_SECONDS = 0.005, 0.25
_COMPILERS = ("C1 Compiler", "C2 Compiler")  # threads of Java


@dataclass
class Stream:
    """`penstock pipeline lake`, a process of its own, which takes what is published at once.

    `command` is all of it: its Python, Java and the workers of Spark. Used by one thread.
    """

    outbox: Outbox
    to: Path
    command: ProcessTree
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
        self._wait(lambda: self._marked() >= self.published)
        taken = time.perf_counter() - began
        self.batches += 1
        self.settle()
        return taken

    def settle(self) -> None:
        """Wait until no batch is under way: Spark still writes its checkpoint when the tables hold one."""
        self._wait(lambda: self._written("commits") == self._written("offsets"))

    def idle_percent(self, seconds: float) -> float:
        """Return how much of a core the command uses while nothing comes."""
        used, began = Spending(self.command.pid), time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            time.sleep(min(_REST_SECONDS, seconds - passed))
            used.seconds()
        return 100 * used.seconds() / (time.perf_counter() - began)

    def spark_seconds(self) -> float:
        """Return the CPU of its Java and of the Python workers below it."""
        return ProcessTree("spark", self._java()).cpu_seconds() or 0.0

    def compiler_seconds(self) -> float:
        """Return the CPU that Java has used to compile itself, which goes on for a while after batches."""
        spent = 0
        for thread in Path(f"/proc/{self._java()}/task").iterdir():
            with suppress(OSError):  # it has ended meanwhile
                if (thread / "comm").read_text().startswith(_COMPILERS):
                    spent += int((thread / "schedstat").read_text().split()[0])
        return spent / 1e9

    def _java(self) -> int:
        below = psutil.Process(self.command.pid).children(recursive=True)
        return next(process.pid for process in below if process.name() == "java")

    def _wait(self, is_so: Callable[[], bool]) -> None:
        began = time.perf_counter()
        while not is_so():
            if time.perf_counter() - began > _PATIENCE or self.command.cpu_seconds() is None:
                raise NotMeasured("the lake did not take a batch in two minutes")
            time.sleep(_LOOK_SECONDS)

    def _written(self, kind: str) -> int:
        """Return the last batch that Spark's checkpoint has as planned, or as done."""
        names = [path.name for path in (self.to / CONTROL / "checkpoint" / kind).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)

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
    run.watch("lake", stream.command.pid)
    stream.settle()
    yield stream


@contextmanager
def _open(run: Run, types: int) -> Iterator[Stream]:
    outbox = run.once(sqlite).create().outbox
    outbox.log.create_topic(_TOPIC, partitions=_PARTITIONS)
    to = run.once(folder) / f"lake-{types}"
    words = ["--url", outbox.url, "--topic", _TOPIC, "--to", str(to), "--master", "local[2]"]
    program = [sys.executable, "-c", "from penstock.cli import main; main()", "pipeline", "lake"]
    with (run.once(folder) / f"lake-{types}.log").open("wb") as said:
        command = subprocess.Popen([*program, *words, "--small-batch-seconds", "0"], stdout=said, stderr=said)
    stream = Stream(outbox, to, ProcessTree("lake", command.pid), types)
    try:
        for _ in range(5):
            stream.take(max(types, 10))
        yield stream
    finally:
        command.terminate()
        command.wait(_PATIENCE)
        outbox.close()


def _record(number: int, types: int) -> Record:
    value = f'{{"n": {number}, "note": "{"x" * 950}"}}'.encode()
    moment = 1_700_000_000_000 + number
    return Record(f"r-{number}", f"k-{number % 100}", value, f"type.{number % types}", (), moment)
