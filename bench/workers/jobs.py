"""What handlers do in a measured worker, by name: hardly anything, or one thing that hurts.

Each is registered in a group that starts at the latest record, so that a log may have a history that is not
delivered; those that measure a start begin at the earliest, as groups do by default.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from bench.workers.tally import Tally
from penstock import Fixed, Outbox, Record

GROUP = "bench"
HELD = "held"  # the type of events whose handler holds its thread
HELD_SECONDS = 15.0
LINGER_SECONDS = 1.0
PARKED = "parked"  # how keys begin whose records fail
_LONG = Fixed(delay=timedelta(hours=6), max_retries=100)

Job = Callable[[Outbox, Tally], None]


def count(outbox: Outbox, tally: Tally) -> None:
    """Do nothing but count."""

    @outbox.handler(group=GROUP, start="latest")
    def handle(record: Record) -> None:
        tally.add()


def park(outbox: Outbox, tally: Tally) -> None:
    """Fail for some keys, to be tried again long after; the first try counts, as the others do."""

    @outbox.handler(group=GROUP, start="latest", retry=_LONG)
    def handle(record: Record) -> None:
        tally.add()
        if record.key is not None and record.key.startswith(PARKED):
            raise ValueError("meant to fail")


def stamp(outbox: Outbox, tally: Tally) -> None:
    """Note the moment the handler starts, on the clock that all processes of a machine share."""

    @outbox.handler(group=GROUP, start="latest")
    def handle(record: Record) -> None:
        tally.stamps.append(time.monotonic_ns())
        tally.add()


def follow(outbox: Outbox, tally: Tally) -> None:
    """Note which event it is and the moment the handler starts, in a group that begins at the earliest."""

    @outbox.handler(group=GROUP)
    def handle(record: Record) -> None:
        tally.seen.append((record.value["order_id"], time.monotonic_ns()))
        tally.add()


def linger(outbox: Outbox, tally: Tally) -> None:
    """Take a second; from the earliest record on."""

    @outbox.handler(group=GROUP)
    def handle(record: Record) -> None:
        time.sleep(LINGER_SECONDS)
        tally.add()


def stamp_beside_held(outbox: Outbox, tally: Tally) -> None:
    """Note the moment the handler starts, beside a group whose calls hold their threads for long."""

    @outbox.handler("order.placed", group=GROUP, start="latest")
    def handle(record: Record) -> None:
        tally.stamps.append(time.monotonic_ns())
        tally.add()

    @outbox.handler(HELD, group=f"{GROUP}-{HELD}", start="latest")
    def hold(record: Record) -> None:
        tally.held.append(None)
        time.sleep(HELD_SECONDS)
        tally.held.pop()


def write(outbox: Outbox, tally: Tally) -> None:
    """Write a row in a transaction of its own."""
    insert = _table(outbox)

    @outbox.handler(group=GROUP, start="latest")
    def handle(record: Record) -> None:
        with outbox.transaction() as conn:
            conn.execute(insert, (record.id,))
        tally.add()


def write_with_cursor(outbox: Outbox, tally: Tally) -> None:
    """Write a row in the transaction that moves the cursor."""
    insert = _table(outbox)

    @outbox.handler(group=GROUP, start="latest", transaction=True)
    def handle(record: Record) -> None:
        record.tx.execute(insert, (record.id,))
        tally.add()


def _table(outbox: Outbox) -> str:
    with outbox.transaction() as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS written (id text NOT NULL)")
    return f"INSERT INTO written VALUES ({'%s' if outbox.url.startswith('postgresql') else '?'})"


_ALL = (count, park, stamp, follow, linger, stamp_beside_held, write, write_with_cursor)
JOBS: dict[str, Job] = {job.__name__: job for job in _ALL}
