"""What handlers do in a measured worker, by name: hardly anything, or one thing that hurts.

Each is registered in a group that starts at the latest record, so that a log may have a history that is not
delivered.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from bench.workers.tally import Tally
from penstock import Fixed, Outbox, Record

GROUP = "bench"
SLOW = "slow"  # the key whose records take their time
SLOW_SECONDS = 1.0
PARKED = "parked"  # how keys begin whose records fail
_LONG = Fixed(delay=timedelta(hours=6), max_retries=100)
_SHORT = Fixed(delay=timedelta(milliseconds=200), max_retries=3)

Job = Callable[[Outbox, Tally], None]


def count(outbox: Outbox, tally: Tally) -> None:
    """Do nothing but count."""

    @outbox.handler(group=GROUP, start="latest")
    def handle(record: Record) -> None:
        tally.add()


def pause(outbox: Outbox, tally: Tally) -> None:
    """Take a millisecond, as a call to somewhere else does."""

    @outbox.handler(group=GROUP, start="latest")
    def handle(record: Record) -> None:
        time.sleep(0.001)
        tally.add()


def slow(outbox: Outbox, tally: Tally) -> None:
    """Take a second for one key and nothing for the others; only the others count."""

    @outbox.handler(group=GROUP, start="latest")
    def handle(record: Record) -> None:
        if record.key == SLOW:
            time.sleep(SLOW_SECONDS)
        else:
            tally.add()


def park(outbox: Outbox, tally: Tally) -> None:
    """Fail for some keys, to be tried again long after; the first try counts, as the others do."""

    @outbox.handler(group=GROUP, start="latest", retry=_LONG)
    def handle(record: Record) -> None:
        tally.add()
        if record.key is not None and record.key.startswith(PARKED):
            raise ValueError("meant to fail")


def storm(outbox: Outbox, tally: Tally) -> None:
    """Fail at the first try of each record, and count the second."""

    @outbox.handler(group=GROUP, start="latest", retry=_SHORT)
    def handle(record: Record) -> None:
        if record.attempt == 1:
            raise ValueError("meant to fail")
        tally.add()


def stamp(outbox: Outbox, tally: Tally) -> None:
    """Note the moment the handler starts, on the clock that all processes of a machine share."""

    @outbox.handler(group=GROUP, start="latest")
    def handle(record: Record) -> None:
        tally.stamps.append(time.monotonic_ns())
        tally.add()


JOBS: dict[str, Job] = {job.__name__: job for job in (count, pause, slow, park, storm, stamp)}
