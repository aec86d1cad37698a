"""Drains while moving the clock past every retry and schedule, until nothing is pending."""

from collections.abc import Callable
from datetime import timedelta

from penstock.app import Outbox
from penstock.database.database import Transaction
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
    """Drain, move the clock to the next retry or scheduled event, and repeat until nothing waits for time.

    Return the counts of all drains together; `parked` is that of the last drain that handed something out.
    `clock` must be the outbox's own. `moved` is called after each move.
    """
    assert outbox._clock is clock, "the outbox has another clock; create it with this one"
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
        f"work is still pending after {most_steps} steps, at {clock.now()}; does a handler snooze forever?"
    )


def next_due_ms(outbox: Outbox) -> int | None:
    """Return the next time after now at which a retry or a scheduled event is due, if any."""
    now_ms = outbox._clock.now_ms()

    def look(tx: Transaction) -> list[int]:
        rows = tx.rows("outbox", "scheduled_next", now_ms=now_ms)
        rows += tx.rows("delivery", "lanes_next", now_ms=now_ms)
        return [int(due_ms) for (due_ms,) in rows if due_ms is not None]

    return min(outbox._database.look(look), default=None)
