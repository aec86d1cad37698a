"""The calls that have begun and not ended, which decide whose answer counts; and whether more may begin."""

from collections.abc import Callable

from penstock.delivery.verdict import Verdict

from ..handler import Handler, HandlerTask
from .limiter import LimitedCall

NOT_BEGUN = float("inf")  # the start of a fallback that still waits for a thread


class FallbackCall:
    """The call of a handler's fallback for a record that is about to be given up with this verdict."""

    __slots__ = ("task", "verdict")

    def __init__(self, task: HandlerTask, verdict: Verdict) -> None:
        self.task, self.verdict = task, verdict

    @property
    def handler(self) -> Handler:
        """The handler whose fallback it is."""
        return self.task.handler


BegunCall = HandlerTask | LimitedCall | FallbackCall


class BegunCalls(dict[BegunCall, float]):
    """Each call that has begun, with the moment it began. From any thread: each step is one operation.

    Invariant: only the one that removes a call decides its outcome. A thread or the loop removes it when the
    handler ends, the watch when its time is over, `close` when the wait is over. So a handler that ends after
    it was given up changes nothing.
    """


def tasks_of(call: BegunCall) -> list[HandlerTask]:
    """Return the tasks of a call."""
    if isinstance(call, LimitedCall):
        return call.tasks
    return [call] if isinstance(call, HandlerTask) else [call.task]


class Permission:
    """Whether a call may begin: not once the runner is closing, and not while the member has no lease.

    Threads and the event loop check before each call. A call they may not begin stays in its queue, and they
    record the refusal here; the watch checks periodically whether it may begin after all. From any thread.
    """

    def __init__(self, may_start: Callable[[], bool] | None) -> None:
        """`may_start` is called before each call; None: always allowed."""
        self.may_start = may_start or _always
        self.is_closing = False
        self.was_refused = False

    def is_given(self) -> bool:
        """Return whether a call may begin now."""
        return not self.is_closing and self.may_start()

    def is_given_again(self) -> bool:
        """Return, once, that refused calls may begin now."""
        if not self.was_refused or not self.may_start():
            return False
        self.was_refused = False
        return True


def _always() -> bool:
    return True
