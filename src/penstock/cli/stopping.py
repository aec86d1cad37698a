"""How a command that serves learns that it is to stop."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from signal import Signals
from threading import Event

from penstock.signals import hearing

logger = logging.getLogger("penstock.serve")


@contextmanager
def stop_heard() -> Iterator[Event]:
    """Give what is set by a signal; a second one does what it does to any program.

    Enter it before the first door says where it listens: who has read that may end the process at once.
    """
    stopped = Event()

    def hear(number: Signals) -> None:
        logger.info("%s: it answers what is under way, and ends", number.name)
        stopped.set()

    with hearing(hear, once=True):
        yield stopped
