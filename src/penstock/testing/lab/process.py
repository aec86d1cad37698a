"""A process of the laboratory: a fork that reports through a pipe, and can really be killed.

A fork, so that a test's handlers, closures and fakes are available unchanged. Only its messages come back: it
ends without cleanup, by SIGKILL or not, and its changes in memory are lost.
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
class EndedProcess:
    """The messages of a process, by word, and whether it was killed."""

    messages: dict[str, list[Any]] = field(default_factory=dict)
    killed: bool = False

    def last(self, word: str) -> Any:
        """Return its last message under a word; None if there is none."""
        return self.messages.get(word, [None])[-1]


def apart(work: Callable[[Tell], object], *, silence_seconds: float) -> EndedProcess:
    """Run work in a separate process; return its messages. Raises LabFailed if it raises, ends or is silent."""
    if not hasattr(os, "fork"):
        raise LabFailed("it needs to fork and kill processes, which this system does not support")
    from_child, to_parent = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: see `_silent`
        pid = os.fork()
    if pid == 0:
        gc.freeze()  # the parent's objects need no collection
        os.close(from_child)
        _live(work, to_parent)
    os.close(to_parent)
    ended, status = EndedProcess(), None
    try:
        for word, value in _messages(from_child, silence_seconds):
            ended.messages.setdefault(word, []).append(value)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(from_child)
        if status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    ended.killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if "error" in ended.messages:
        raise LabFailed(f"a process of it raised:\n{ended.last('error')}")
    if not ended.killed and status != 0:
        raise LabFailed(f"a process of it ended with exit code {os.waitstatus_to_exitcode(status)}")
    return ended


def _live(work: Callable[[Tell], object], pipe: int) -> NoReturn:
    """Run the child: work, report, end; without the parent's cleanup handlers."""

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
    why = "does a handler wait for something that never happens there?"
    if others:
        why = (
            f"this process also runs the threads {', '.join(others)}, and a lock that one of them held at "
            "the fork stays locked: use `penstock lab`, which starts no threads"
        )
    return f"a process of it was silent for {seconds:g} s; {why}"
