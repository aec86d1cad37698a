"""A process of the laboratory: a fork that says what it does through a pipe, and can be killed for real.

A fork, so that handlers, closures and fakes of a test are there as they are. Nothing of the child comes back
but what it tells: it ends without cleaning up, on SIGKILL or not, and what it changed in its memory is gone.
"""

import gc
import os
import select
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec

from penstock.errors import LabFailed

Tell = Callable[[str, Any], None]
_CHUNK = 65_536


@dataclass(slots=True)
class Told:
    """What a process said, by word, and whether it was killed."""

    said: dict[str, list[Any]] = field(default_factory=dict)
    killed: bool = False

    def last(self, word: str) -> Any:
        """Return what it said last under a word; None if it never did."""
        return self.said.get(word, [None])[-1]


def apart(work: Callable[[Tell], object], *, silence_seconds: float) -> Told:
    """Do some work in a process of its own, and return what it told.

    Raises LabFailed when the work raises, ends in another way than by SIGKILL, or is silent for too long.
    """
    if not hasattr(os, "fork"):
        raise LabFailed("it needs processes that can be forked and killed, which this system does not have")
    from_child, to_parent = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: see `_silent`
        pid = os.fork()
    if pid == 0:
        gc.freeze()  # what the parent had is not looked at again
        os.close(from_child)
        _live(work, to_parent)
    os.close(to_parent)
    told, status = Told(), None
    try:
        for word, value in _messages(from_child, silence_seconds):
            told.said.setdefault(word, []).append(value)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(from_child)
        if status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    told.killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if "error" in told.said:
        raise LabFailed(f"a process of it raised:\n{told.last('error')}")
    if not told.killed and status != 0:
        raise LabFailed(f"a process of it ended by itself, with {os.waitstatus_to_exitcode(status)}")
    return told


def _live(work: Callable[[Tell], object], pipe: int) -> NoReturn:
    """The life of a child: work, tell, end; what the parent would clean up is left alone."""

    def tell(word: str, value: Any) -> None:
        line = memoryview(msgspec.json.encode([word, value]) + b"\n")
        while line:
            line = line[os.write(pipe, line) :]

    try:
        work(tell)
    except BaseException:
        tell("error", traceback.format_exc())
    finally:
        os._exit(0)


def _messages(pipe: int, silence_seconds: float) -> Iterator[tuple[str, Any]]:
    rest = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], silence_seconds)
        if not ready:
            raise LabFailed(_silent(silence_seconds))
        chunk = os.read(pipe, _CHUNK)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            word, value = msgspec.json.decode(line)
            yield word, value


def _silent(seconds: float) -> str:
    others = [each.name for each in threading.enumerate() if each is not threading.current_thread()]
    why = "does a handler wait for something that nobody does there?"
    if others:
        why = (
            f"this process also runs the threads {', '.join(others)}, and a lock that one of them held at "
            "the fork stays locked: use `penstock lab`, which starts none"
        )
    return f"a process of it said nothing for {seconds:g} s; {why}"
