"""Waiting until every member has read the store's state from the tables.

A member reads it with each heartbeat, after it has renewed its lease: a member that renewed its lease after
a write has read it, and a member that may no longer use the tables writes nothing more.
"""

from threading import Event

from penstock.clock import Clock
from penstock.database.database import Database, Transaction

from .lease import lease_clocks
from .process import Process

_LOOK_MS = 100


def wait_until_heard(database: Database, clock: Clock) -> None:
    """Return once each living member has sent a heartbeat or is gone, or when its lease has ended.

    The caller has committed the state that the members must read.
    """
    leases, longest_ms = database.look(lambda tx: _leases(tx, clock))
    for _ in range(0, longest_ms, _LOOK_MS):
        if not leases:
            return
        Event().wait(_LOOK_MS / 1000)
        now, _ = database.look(lambda tx: _leases(tx, clock))
        leases = {id: until for id, until in leases.items() if now.get(id) == until}


def _leases(tx: Transaction, clock: Clock) -> tuple[dict[str, int], int]:
    """Return when the lease of each living member ends, and how long the longest of them still runs."""
    rows = tx.rows("membership", "member_leases", **lease_clocks(clock))
    living = [row for row in rows if not Process(*row[1:4]).is_surely_dead()]
    return {row[0]: row[4] for row in living}, max((row[5] for row in living), default=0)
