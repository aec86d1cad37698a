"""The calls that have begun and not ended: the one place that decides whose answer counts."""

from penstock.delivery.verdict import Verdict

from ..handler import Handler
from ..task import HandlerTask
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


class CallsUnderWay(dict[BegunCall, float]):
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
