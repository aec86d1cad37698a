"""The places where the laboratory can kill a process, counted in the order of visits.

They are Penstock's own points, and those of a handler: its call, its end, each of its commits, each effect it
notes. A visit is reported before anything happens there, so the progress of a killed process is known.
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
    BEFORE_EFFECT: "A handler is about to perform a noted effect.",
    AFTER_EFFECT: "A handler has performed a noted effect, and goes on.",
}


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of one process. `handler`, `type`, `key`, `id`: of the record being handled, if any."""

    number: int
    point: str
    handler: str | None = None
    type: str | None = None
    key: str | None = None
    id: str | None = None

    @property
    def meaning(self) -> str:
        """The state of the work at this point."""
        return OWN.get(self.point) or points.declared().get(points.Point(self.point), "")

    def __str__(self) -> str:
        about = f", in {self.handler} for {self.type} of key {self.key!r}" if self.handler else ""
        return f"visit {self.number}, {self.point}{about}: {self.meaning}"


class Visits:
    """Counts and reports the visits of this process, which it changes for good, and kills it at one of them."""

    def __init__(self, tell: Callable[[Visit], object], kill_at: int | None = None) -> None:
        self._tell, self._kill_at = tell, kill_at
        self._lock = RLock()
        self._count, self._is_open, self._quiet = 0, True, 0
        self._at: tuple[str, Record] | None = None
        for point in points.declared():
            self._arm(point)

    @contextmanager
    def handling(self, handler: str, record: Record) -> Iterator[None]:
        """Mark a handler's call for a record."""
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
        """Visit a place before and after an action of a handler; only the outermost of nested ones counts."""
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
        """Count and report a visit, and kill the process if it is the chosen one."""
        with self._lock:
            if not self._is_open:
                return
            self._count += 1
            handler, record = self._at or (None, None)
            about = () if record is None else (handler, record.type, record.key, record.id)
            self._tell(Visit(self._count, point, *about))
            if self._count == self._kill_at:
                points.kill()

    def close(self) -> None:
        """Stop counting."""
        self._is_open = False

    def _arm(self, point: points.Point) -> None:
        def visited() -> None:
            self._arm(point)  # an armed point fires once
            self.reach(point)

        points.arm(point, visited)
