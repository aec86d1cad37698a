"""A worker in a thread, for as long as a block lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from penstock import Outbox
from tests.crash.waiting import LONGEST_SECONDS


@contextmanager
def working(outbox: Outbox) -> Iterator[Event]:
    """Run a worker while the block lasts, or until the event it gives is set."""
    until = Event()
    thread = Thread(target=outbox.run, kwargs={"until": until})
    thread.start()
    try:
        yield until
    finally:
        until.set()
        thread.join(LONGEST_SECONDS)
    assert not thread.is_alive(), "the worker does not stop"
