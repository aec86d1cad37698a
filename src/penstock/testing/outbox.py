"""An outbox in a test: in memory, on another store, drained until nothing waits, its events to compare.

Programs declare `outbox = Outbox("postgresql://...")` once, at the top of a module, and register on it. A
test needs that very object, on another store: `relocated`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from penstock.app import Outbox
from penstock.clock import Clock, from_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.model.record import Record
from penstock.wire.kafka.headers import decode_headers
from penstock.worker.drain import Counts

from .clock import FakeClock


def memory_outbox(clock: Clock | None = None) -> Outbox:
    """Return a new, empty outbox in memory with its tables; its data ends with the object."""
    outbox = Outbox("memory://") if clock is None else Outbox("memory://", clock=clock)
    outbox.migrate()
    return outbox


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


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A scheduled event and its due time."""

    at: datetime
    record: Record


def published(outbox: Outbox) -> list[Record]:
    """Return all published and committed events: those in the log, then staged and scheduled ones.

    Staged events are in order of publishing; records of the log in order of time, and within a partition in
    order of offsets. `offset` is None until a record is in the log.
    """
    rows = outbox._database.look(lambda tx: tx.rows("outbox", "staged_all"))
    return _logged(outbox) + [_record(row) for row in rows] + [each.record for each in scheduled(outbox)]


def scheduled(outbox: Outbox) -> list[Scheduled]:
    """Return the scheduled events, the next one first."""
    rows = outbox._database.look(lambda tx: tx.rows("outbox", "scheduled_all"))
    return [Scheduled(from_ms(due_ms), _record(tuple(row))) for due_ms, *row in rows]


def _logged(outbox: Outbox) -> list[Record]:
    log = outbox.log
    found: list[Record] = []
    for topic in log.topics():
        for partition, end in sorted(log.ends(topic).items()):
            offset, _ = log.bounds(topic.name, partition)
            while offset < end and (some := log.read(topic.name, partition, offset)):
                found += some
                offset = (some[-1].offset or 0) + 1
    return sorted(found, key=lambda record: record.timestamp_ms)


def _record(row: Row) -> Record:
    topic, id, key, type, value, headers, timestamp_ms = row
    text = None if key is None else key.decode("utf-8", "surrogateescape")
    pairs = decode_headers(headers) if headers else ()
    return Record(id, text, value, type, pairs, timestamp_ms, topic)


# The attributes of an outbox that are registrations; the others belong to its store. A test knows all.
OF_THE_PROGRAM = {
    "_allow_autocommit",
    "_context",
    "_event_types",
    "_handlers",
    "_limits",
    "_schedules",
    "_tracker",
    "_window_ms",
}


@contextmanager
def relocated(outbox: Outbox, url: str = "memory://", *, clock: Clock | None = None) -> Iterator[Outbox]:
    """Let an outbox use another store inside the block: by default a new one in memory.

    The store gets its tables. Without a clock it gets a new FakeClock. Handlers and event types stay,
    including those registered inside the block. Not while a worker of this outbox runs.
    """
    assert not outbox._workers, "a worker of this outbox runs; stop it first"
    elsewhere = another(outbox, url, FakeClock() if clock is None else clock)
    mine = _of_store(outbox)  # kept unchanged: its connections stay open
    _share_listeners(outbox, elsewhere)
    vars(outbox).update(_of_store(elsewhere))
    try:
        outbox.migrate()
        yield outbox
    finally:
        outbox.close()
        vars(outbox).update(mine)
        _share_listeners(elsewhere, outbox)


def another(outbox: Outbox, url: str, clock: Clock) -> Outbox:
    """Return a new outbox with the same table names, as far as the other store supports them."""
    names, schemas = outbox._names, url.startswith("postgres")
    return Outbox(url, prefix=names.prefix, schema=names.schema if schemas else None, clock=clock)


def _of_store(outbox: Outbox) -> dict[str, Any]:
    return {name: value for name, value in vars(outbox).items() if name not in OF_THE_PROGRAM}


def _share_listeners(one: Outbox, other: Outbox) -> None:
    for listener in one._listeners.all:
        if listener not in other._listeners.all:
            other._listeners.add(listener)
