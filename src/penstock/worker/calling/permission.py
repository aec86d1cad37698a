"""Whether handlers may be called now."""

from collections.abc import Callable


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
