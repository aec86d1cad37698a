"""A worker in a process of its own: begun, rung, asked and ended by words."""

import ctypes
import logging
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeVar

from bench.errors import NotMeasured
from bench.package import worker_of
from bench.workers.counting import StatementCount
from bench.workers.jobs import JOBS
from bench.workers.tally import Tally
from penstock import Outbox

T = TypeVar("T")

_SPAWN = multiprocessing.get_context("spawn")  # a fresh Python: nothing of ours in its memory
_ANSWER_SECONDS = 60
_END_SECONDS = 60
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of linux/prctl.h


class Seen(NamedTuple):
    """What a worker has handled, and when it had."""

    handled: int
    moment_ns: int | None  # on the clock that all processes share; None when it was not reached


class WorkerProcess:
    """The process; made by `worker_process`."""

    def __init__(self, pid: int, words: Connection) -> None:
        self.pid = pid
        self._words = words

    def begin(self) -> None:
        """Let it join and work; it has been waiting since it was started."""
        self._ask("begin")

    def ring(self) -> None:
        """Say that something was staged."""
        self._ask("ring")

    def handled(self) -> int:
        """Return how many its handlers have counted since it was started."""
        return int(self._ask("handled"))

    def wait(self, handled: int, seconds: float) -> Seen:
        """Wait until its handlers have counted so many. Raises NotMeasured when that takes longer."""
        moment_ns = self._ask("wait", handled, seconds, seconds=seconds + _ANSWER_SECONDS)
        if moment_ns is None:
            raise NotMeasured(f"the worker handled {self.handled()} of {handled} in {seconds:g} s")
        return Seen(handled, moment_ns)

    def stamps(self) -> list[int]:
        """Return the moments its handlers have noted, and forget them."""
        return list(self._ask("stamps"))

    def seen(self) -> list[tuple[int, int]]:
        """Return the number and the moment of each event its handlers have noted, and forget them."""
        return list(self._ask("seen"))

    def held(self) -> int:
        """Return how many of its calls take their time now."""
        return int(self._ask("held"))

    def statements(self) -> int:
        """Return how many statements it has run so far; of PostgreSQL's driver only."""
        return int(self._ask("statements"))

    def stop(self) -> None:
        """Let it settle and leave; the process stays."""
        self._ask("stop", seconds=_END_SECONDS)

    def _ask(self, word: str, *args: Any, seconds: float = _ANSWER_SECONDS) -> Any:
        self._words.send((word, *args))
        if not self._words.poll(seconds):
            raise NotMeasured(f"the worker did not answer {word!r} in {seconds:g} s")
        return self._words.recv()


@contextmanager
def worker_process(url: str, job: str) -> Iterator[WorkerProcess]:
    """Start a process that can work on a store, and end it with the block; if it has joined it leaves."""
    ours, its = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(url, job, its), daemon=True)
    process.start()
    its.close()
    try:
        try:
            ours.recv()
        except EOFError as exc:
            raise NotMeasured("the worker's process ended at its start; its words are above") from exc
        assert process.pid is not None
        yield WorkerProcess(process.pid, ours)
    finally:
        ours.close()
        process.join(_END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(url: str, job: str, words: Connection) -> None:
    if sys.platform == "linux":  # a benchmark that is killed closes no pipe while we wait for handlers
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    logging.getLogger("penstock").addHandler(logging.NullHandler())  # failing handlers are meant to fail
    outbox, tally, statements = Outbox(url), Tally(), StatementCount()
    JOBS[job](outbox, tally)
    worker = worker_of(outbox)
    answers: dict[str, Callable[..., Any]] = {
        "begin": worker.start,
        "ring": worker.ring,
        "handled": tally.count,
        "wait": tally.wait,
        "stamps": lambda: _emptied(tally.stamps),
        "seen": lambda: _emptied(tally.seen),
        "held": lambda: len(tally.held),
        "statements": statements.count,
        "stop": worker.stop,
    }
    begun = False
    with statements:
        words.send("ready")
        try:
            while True:
                word, *args = words.recv()
                begun |= word == "begin"
                words.send(answers[word](*args))
        except (EOFError, BrokenPipeError):
            if begun:
                worker.stop()


def _emptied(noted: list[T]) -> list[T]:
    found = list(noted)
    del noted[: len(found)]
    return found
