"""A small bank with handlers good and bad, and laboratories for them, also by name for the command."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from penstock import Outbox, Record
from penstock.testing import CrashLab, World

PAID = [("ada", 10), ("grace", 20)]
_ADD = "UPDATE account SET cents = cents + ? WHERE name = ?"
_MARK = "INSERT OR IGNORE INTO seen VALUES (?)"
here: list[World] = []  # the world that this process stands in


def enter(world: World) -> None:
    here[:] = [world]


def make(world: World) -> None:
    with closing(connect()) as conn, conn:
        conn.execute("CREATE TABLE account (name TEXT PRIMARY KEY, cents INTEGER NOT NULL)")
        conn.execute("CREATE TABLE seen (id TEXT PRIMARY KEY)")
        conn.executemany("INSERT INTO account VALUES (?, 0)", [(name,) for name, _ in PAID])


def publish(world: World) -> None:
    with world.outbox.transaction() as conn:
        for name, cents in PAID:
            world.outbox.publish(conn, "money.paid", cents, key=name)


def state(world: World) -> Any:
    with closing(connect()) as conn:
        return {"cents": dict(conn.execute("SELECT name, cents FROM account")), "notes": world.notes()}


def connect() -> sqlite3.Connection:
    return sqlite3.connect(here[0].path)


def add(record: Record) -> None:
    """Not idempotent: a repeat adds again."""
    with closing(connect()) as conn, conn:
        conn.execute(_ADD, (record.value, record.key))


def mark_then_add(record: Record) -> None:
    """Not idempotent, and only between its two commits: what is marked and not added never will be."""
    with closing(connect()) as conn:
        with conn:
            new = conn.execute(_MARK, (record.id,)).rowcount
        if new:
            with conn:
                conn.execute(_ADD, (record.value, record.key))


def mark_and_add(record: Record) -> None:
    """Idempotent: one commit, by the record's id."""
    with closing(connect()) as conn, conn:
        if conn.execute(_MARK, (record.id,)).rowcount:
            conn.execute(_ADD, (record.value, record.key))


def add_in_tx(record: Record) -> None:
    """Adds in the transaction that also moves the cursor."""
    record.tx.execute(_ADD, (record.value, record.key))


def mail(record: Record) -> None:
    """Not idempotent: a mail cannot be taken back."""
    here[0].note("mail to", record.key)


def lab_of(*handlers: Callable[[Record], Any], transaction: bool = False, **options: Any) -> CrashLab:
    """Return a laboratory for some handlers, each in a group of its own."""
    outbox = Outbox("memory://")
    for each in handlers:
        name = each.__name__
        outbox.handler("money.paid", group=name, id=name, transaction=transaction)(each)
    given: dict[str, Any] = {"publish": publish, "state": state, "make": make, "enter": enter}
    return CrashLab(outbox, **given | {"rounds": 0} | options)


def __getattr__(name: str) -> CrashLab:
    """Give the laboratory that a command names."""
    labs = {"adding": partial(lab_of, add, rounds=5), "marking": partial(lab_of, mark_and_add)}
    if name not in labs:
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    return labs[name]()
