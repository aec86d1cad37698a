"""Counts what one event crosses from `publish` to its settlement: files, functions, threads, switches.

    python -m tools.walk [--events 15] [--names]

A worker with one handler runs on a SQLite file in this process, and events come one at a time, half a second
apart: a trickle. Every thread has a profile function (`threading.setprofile`, installed before the worker
starts), which records calls of functions in `src/penstock` from the moment before `publish` until a moment
after the settlement is written. A switch is a recorded call in another thread than the one before.

The membership thread renews the lease and measures from time to time, whether events come or not, so its
calls do not count, nor do those of other timers that end within a walk by chance: the figures are medians.
"""

import argparse
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event, current_thread
from types import FrameType
from typing import Any, NamedTuple

import penstock
from penstock import Outbox, Record, points

SOURCE = str(Path(penstock.__file__).parent)
BESIDE = ("penstock-membership", "penstock-retention")  # threads that no event passes through
MOST_FILES, MOST_THREADS, MOST_SWITCHES = 50, 4, 15
_APART_SECONDS, _AFTER_SECONDS, _LONGEST_SECONDS = 0.5, 0.02, 30.0

Call = tuple[str, str, str]  # thread, file, function


class Walk(NamedTuple):
    """The way of one event."""

    calls: list[Call]

    @property
    def files(self) -> set[str]:
        """The files it crosses."""
        return {file for _, file, _ in self.calls}

    @property
    def functions(self) -> set[tuple[str, str]]:
        """The functions it crosses."""
        return {(file, function) for _, file, function in self.calls}

    @property
    def threads(self) -> list[str]:
        """The threads it crosses, in that order."""
        return list(dict.fromkeys(thread for thread, _, _ in self.calls))

    @property
    def switches(self) -> int:
        """How often it passes from one thread to another."""
        return sum(one[0] != other[0] for one, other in zip(self.calls, self.calls[1:], strict=False))


class Recorder:
    """Records calls in all threads while it is on."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.is_on = False

    def install(self) -> None:
        """Profile this thread and all that start from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def remove(self) -> None:
        """Profile no more threads."""
        self.is_on = False
        threading.setprofile(None)
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        if self.is_on and event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            name = current_thread().name
            if not name.startswith(BESIDE):
                file = frame.f_code.co_filename.removeprefix(SOURCE)[1:]
                self.calls.append((name, file, frame.f_code.co_qualname))


def walks(events: int) -> list[Walk]:
    """Publish events one at a time and return the walk of each."""
    recorder, found = Recorder(), list[Walk]()
    handled, settled = Event(), Event()
    with TemporaryDirectory() as folder:
        outbox = Outbox(f"sqlite:///{folder}/walk.db")
        outbox.migrate()

        @outbox.handler("order.placed", group="walk")
        def handle(record: Record) -> None:
            handled.set()

        recorder.install()
        until = Event()
        worker = threading.Thread(target=outbox.run, kwargs={"until": until}, name="main of the worker")
        worker.start()
        try:
            for number in range(events + 3):
                until.wait(_APART_SECONDS)
                recorder.calls = []
                handled.clear()
                settled.clear()
                points.arm("delivery.after_settle", settled.set)
                recorder.is_on = number >= 3  # the first ones make topic, group and threads
                with outbox.transaction() as conn:
                    outbox.publish(conn, "order.placed", {"number": number}, key=f"o-{number}")
                if not handled.wait(_LONGEST_SECONDS):
                    raise SystemExit("the event was not handled")
                if not settled.wait(_LONGEST_SECONDS):
                    raise SystemExit("the event was not settled")
                until.wait(_AFTER_SECONDS)
                recorder.is_on = False
                if number >= 3:
                    found.append(Walk(recorder.calls))
        finally:
            recorder.remove()
            until.set()
            worker.join()
            points.disarm()
            outbox.close()
    return found


def figures(found: Iterable[Walk]) -> dict[str, float]:
    """Return the median of each figure."""
    each = [(len(w.files), len(w.functions), len(w.threads), w.switches) for w in found]
    names = ("files", "functions", "threads", "switches")
    return {name: median(values) for name, values in zip(names, zip(*each, strict=True), strict=True)}


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; return 1 if one of them is above its bound."""
    parser = argparse.ArgumentParser(prog="python -m tools.walk", description=__doc__)
    parser.add_argument("--events", type=int, default=15, help="how many events to follow")
    parser.add_argument("--names", action="store_true", help="print the way of the middle event as well")
    given = parser.parse_args(arguments)
    found = walks(given.events)
    result = figures(found)
    bounds = {"files": MOST_FILES, "threads": MOST_THREADS, "switches": MOST_SWITCHES}
    for name, value in result.items():
        bound = f"  (at most {bounds[name]})" if name in bounds else ""
        print(f"{name:10} {value:4g}{bound}")
    if given.names:
        middle = sorted(found, key=lambda walk: len(walk.calls))[len(found) // 2]
        print(f"threads: {', '.join(middle.threads)}")
        thread = ""
        for call in middle.calls:
            if call[0] != thread:
                thread = call[0]
                print(f"-- {thread}")
            print(f"   {call[1]} {call[2]}")
        print("\n".join(sorted(middle.files)))
    return int(any(result[name] > bound for name, bound in bounds.items()))


if __name__ == "__main__":
    raise SystemExit(main())
