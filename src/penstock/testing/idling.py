"""Draining while moving the clock: past every retry and every schedule, until nothing more will happen."""

from collections.abc import Callable
from datetime import timedelta

from penstock.app import Outbox
from penstock.log.sql.database import Transaction
from penstock.worker.drain import Counts

from .clock import FakeClock

_MOST_STEPS = 1000


def drain_until_idle(
    outbox: Outbox,
    clock: FakeClock,
    *,
    most_steps: int = _MOST_STEPS,
    moved: Callable[[FakeClock], object] = lambda clock: None,
) -> Counts:
    """Drain, move the clock to the next retry or scheduled event, drain again, until nothing waits for time.

    Return what all drains did together; `parked` is as the last of them that handed something out left it.
    `clock` must be the outbox's own. `moved` is called each time it was moved.
    """
    assert outbox._clock is clock, "the outbox has another clock; make it with this one"
    total = Counts()
    for _ in range(most_steps):
        done = outbox.drain()
        for name in ("sequenced", "delivered", "retried", "dead"):
            setattr(total, name, getattr(total, name) + getattr(done, name))
        if done.delivered or done.retried or done.dead:
            total.parked = done.parked
        due_ms = next_due_ms(outbox)
        if due_ms is None:
            return total
        clock.advance(timedelta(milliseconds=due_ms - clock.now_ms()))
        moved(clock)
    raise AssertionError(
        f"after {most_steps} steps, at {clock.now()}, more is still to come; does a handler snooze forever?"
    )


def next_due_ms(outbox: Outbox) -> int | None:
    """Return the next moment after now at which a retry or a scheduled event is due, if there is one."""
    now_ms = outbox._clock.now_ms()

    def look(tx: Transaction) -> list[int]:
        rows = tx.rows("outbox", "scheduled_next", now_ms=now_ms)
        rows += tx.rows("delivery", "lanes_next", now_ms=now_ms)
        return [int(due_ms) for (due_ms,) in rows if due_ms is not None]

    return min(outbox._database.look(look), default=None)
