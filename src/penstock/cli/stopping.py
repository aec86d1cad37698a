"""Stopping a serving command by a signal."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from signal import Signals
from threading import Event

from penstock.signals import hearing

logger = logging.getLogger("penstock.serve")


@contextmanager
def stop_heard() -> Iterator[Event]:
    """Yield an event that a signal sets; a second signal has its default effect.

    Enter it before the first listener prints its address: a caller that reads it may send a signal at once.
    """
    stopped = Event()

    def hear(number: Signals) -> None:
        logger.info("%s: completing pending requests, then stopping", number.name)
        stopped.set()

    with hearing(hear, once=True):
        yield stopped
