"""Named points in the code where tests kill, pause or fail the process.

A room declares its points once, at import, with the meaning of a crash there; the crash suites walk
`declared()`, so a new point is tested from the day it is written. Nothing happens at a point unless a test
armed it in this very process: no setting, environment variable or request can do so. Cost when nothing is
armed: one call and one truth test of an empty dict.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from typing import NewType

from penstock.errors import UnknownPoint

Point = NewType("Point", str)
Action = Callable[[], None]

_declared: dict[Point, str] = {}
_armed: dict[Point, "_Trap"] = {}


@dataclass(slots=True)
class _Trap:
    action: Action
    visits_left: int


def declare(name: str, meaning: str) -> Point:
    """Add a point to the table; `meaning` describes the work done before the code reaches it."""
    point = Point(name)
    assert point not in _declared, f"point {name} is declared twice"
    _declared[point] = meaning
    return point


def declared() -> dict[Point, str]:
    """Return every declared point with its meaning."""
    return dict(_declared)


def reach(point: Point) -> None:
    """Mark that the code has reached `point`."""
    if _armed:
        _spring(point)


def is_armed(*points: Point) -> bool:
    """Return whether one of these points has an action."""
    return bool(_armed) and any(point in _armed for point in points)


def arm(name: str, action: Action, *, visit: int = 1) -> None:
    """Run `action` once, at the given visit of a point. Raises UnknownPoint when no room declared it."""
    assert visit >= 1, f"visits are counted from 1, not {visit}"
    point = Point(name)
    if point not in _declared:
        raise UnknownPoint(name, sorted(_declared))
    _armed[point] = _Trap(action, visit)


def disarm() -> None:
    """Disarm all points."""
    _armed.clear()


def kill() -> None:
    """End this process as `kill -9` does: no cleanup, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def pause() -> None:
    """Stop this process as SIGSTOP does, until it gets SIGCONT."""
    # To this very thread: a signal to the process may reach another thread first, and this one would run on.
    signal.pthread_kill(get_ident(), signal.SIGSTOP)


def fail(error: BaseException) -> Action:
    """Return an action that raises `error`."""

    def action() -> None:
        raise error

    return action


def _spring(point: Point) -> None:
    trap = _armed.get(point)
    if trap is None:
        return
    trap.visits_left -= 1
    if trap.visits_left == 0:
        del _armed[point]
        trap.action()
