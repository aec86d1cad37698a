"""The worker that regression tests start in a process of its own: `python -m tests.regressions.programs {…}`.

It says in lines of JSON what it handles, and what becomes of each settling; it ends on a word.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Event, Lock
from typing import Any

from penstock import Record, points
from penstock.delivery.machine import Settlement
from penstock.delivery.store import GroupStore, Owned, Written
from penstock.membership import process
from tests.crash.programs import await_word, die_with_the_test, say
from tests.regressions.workers import a_worker, handled

_saying = Lock()


def tell(**words: Any) -> None:
    """Say something to the test, from any thread."""
    with _saying:
        say(**words)


def note(record: Record, _: str) -> None:
    """Handle a record."""


def burn(_: Record, until: str) -> None:
    """Burn CPU in Python until a file is there."""
    while not os.path.exists(until):
        sum([number * number for number in range(2000)])


def grip(_: Record, fifo: str) -> None:
    """Hold the interpreter lock, as a C library may, until the test writes to a pipe."""
    pipe = os.open(fifo, os.O_RDWR)
    ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1)  # PyDLL keeps the lock while it waits


def hang(_: Record, __: str) -> None:
    """Never end."""
    Event().wait()


ACTS: dict[str, Callable[[Record, str], None]] = {"note": note, "burn": burn, "grip": grip, "hang": hang}


def work(
    url: str,
    who: str,
    lease_seconds: float,
    beat_seconds: float,
    act: str = "note",
    argument: str = "",
    stop_at: str | None = None,
    elsewhere: bool = False,
    concurrency: int = 8,
) -> None:
    """Run a worker until told to stop.

    Its handler does what `act` says. With `stop_at` the process stops itself, as SIGSTOP does, when it first
    comes to that point; with `elsewhere` it is a member on another host, so that only its lease tells others
    that it is gone.
    """
    confirm = GroupStore.confirm

    def confirm_and_tell(
        self: GroupStore, settled: Mapping[int, tuple[Owned, Settlement]], written: Written
    ) -> set[int]:
        lost = confirm(self, settled, written)
        tell(settled=sorted(settled.keys() - lost), lost=sorted(lost))
        return lost

    def handle(record: Record) -> None:
        tell(handling=handled(who, record))
        ACTS[act](record, argument)

    GroupStore.confirm = confirm_and_tell  # type: ignore[method-assign]
    if elsewhere:
        process.this_host = lambda: "elsewhere"
    if stop_at is not None:
        points.arm(stop_at, points.pause)
    lease, beat = timedelta(seconds=lease_seconds), timedelta(seconds=beat_seconds)
    with a_worker(url, who, handle, lease=lease, beat=beat, concurrency=concurrency) as worker:
        worker.start()
        tell(member=worker.id)
        await_word()
        worker.stop()


if __name__ == "__main__":
    die_with_the_test()
    work(**json.loads(sys.argv[1]))
