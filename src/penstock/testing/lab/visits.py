"""The places where the laboratory can end a process, counted in the order a process comes to them.

Penstock's own points, and those of a handler: its call, its end, each commit it makes, each effect it notes.
A visit is reported before anything happens there, so it is known what a killed process had done.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock

from penstock import points
from penstock.model.record import Record

HANDLER_CALLED = "handler.called"
HANDLER_RETURNED = "handler.returned"
HANDLER_RAISED = "handler.raised"
BEFORE_COMMIT, AFTER_COMMIT = "commit.before", "commit.after"
BEFORE_EFFECT, AFTER_EFFECT = "effect.before", "effect.after"
OWN = {
    HANDLER_CALLED: "A handler is about to be called.",
    HANDLER_RETURNED: "A handler has returned; nothing is settled.",
    HANDLER_RAISED: "A handler has raised; nothing is settled.",
    BEFORE_COMMIT: "A handler is about to commit.",
    AFTER_COMMIT: "A handler has committed, and goes on.",
    BEFORE_EFFECT: "A handler is about to do what it notes.",
    AFTER_EFFECT: "A handler has done what it notes, and goes on.",
}


@dataclass(frozen=True, slots=True)
class Visit:
    """One place in one process. `handler`, `type`, `key`, `id`: what was being handled there, if anything."""

    number: int
    point: str
    handler: str | None = None
    type: str | None = None
    key: str | None = None
    id: str | None = None

    @property
    def meaning(self) -> str:
        """What has been done when a process is here."""
        return OWN.get(self.point) or points.declared().get(points.Point(self.point), "")

    def __str__(self) -> str:
        about = f", in {self.handler} for {self.type} of key {self.key!r}" if self.handler else ""
        return f"visit {self.number}, {self.point}{about}: {self.meaning}"


class Visits:
    """Counts the visits of this process, tells each, and ends the process at one of them.

    Made in a process of its own, which it changes for good: every declared point is armed.
    """

    def __init__(self, tell: Callable[[Visit], object], kill_at: int | None = None) -> None:
        self._tell, self._kill_at = tell, kill_at
        self._lock = RLock()
        self._count, self._is_open, self._quiet = 0, True, 0
        self._at: tuple[str, Record] | None = None
        for point in points.declared():
            self._arm(point)

    @contextmanager
    def handling(self, handler: str, record: Record) -> Iterator[None]:
        """Say that a handler is being called for a record."""
        self._at = handler, record
        self.reach(HANDLER_CALLED)
        try:
            yield
        except BaseException:
            self.reach(HANDLER_RAISED)
            raise
        else:
            self.reach(HANDLER_RETURNED)
        finally:
            self._at = None

    @contextmanager
    def around(self, before: str, after: str) -> Iterator[None]:
        """Visit a place before and after what a handler does; only the outermost of nested ones counts."""
        if self._at is None or self._quiet:
            yield
            return
        self.reach(before)
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1
        self.reach(after)

    def reach(self, point: str) -> None:
        """Count a visit, tell it, and end the process if it is the one."""
        with self._lock:
            if not self._is_open:
                return
            self._count += 1
            self._tell(self._visit(point))
            if self._count == self._kill_at:
                points.kill()

    def close(self) -> None:
        """Count no more."""
        self._is_open = False

    def _visit(self, point: str) -> Visit:
        if self._at is None:
            return Visit(self._count, point)
        handler, record = self._at
        return Visit(self._count, point, handler, record.type, record.key, record.id)

    def _arm(self, point: points.Point) -> None:
        def visited() -> None:
            self._arm(point)  # a point that was armed springs once
            self.reach(point)

        points.arm(point, visited)
