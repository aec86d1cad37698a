"""An outbox in memory with a clock that you move: nothing to install, nothing to clean up."""

from penstock.app import Outbox
from penstock.clock import Clock


def memory_outbox(clock: Clock | None = None) -> Outbox:
    """Return a new, empty outbox in memory with its tables; its data ends with the object."""
    outbox = Outbox("memory://") if clock is None else Outbox("memory://", clock=clock)
    outbox.migrate()
    return outbox
