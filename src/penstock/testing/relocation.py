"""Moves a program's outbox, with its handlers and event types, to another store during a test.

Programs declare `outbox = Outbox("postgresql://...")` once, at the top of a module, and register on it. A
test needs that very object, on another store.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.app import Outbox
from penstock.clock import Clock

from .clock import FakeClock

# The attributes of an outbox: of its store, and of its registrations. A test compares both lists with an
# Outbox.
OF_THE_STORE = {
    "url",
    "_bell",
    "_clock",
    "_closing",
    "_database",
    "_dialect",
    "_durability",
    "_has_outbox",
    "_listeners",
    "_names",
    "_now_ms",
    "_store",
    "_tokens_used",
    "_workers",
}
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
    mine = {name: vars(outbox)[name] for name in OF_THE_STORE}  # kept unchanged: its connections stay open
    _share_listeners(outbox, elsewhere)
    vars(outbox).update({name: vars(elsewhere)[name] for name in OF_THE_STORE})
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


def _share_listeners(one: Outbox, other: Outbox) -> None:
    """Add the listeners of one outbox to the other; they belong to the store's attributes."""
    for listener in one._listeners.all:
        if listener not in other._listeners.all:
            other._listeners.add(listener)
