"""The schedules that living members declare, and their definitions: they tell a deploy from a rollback."""

from penstock.clock import Clock
from penstock.database.database import Transaction

from .lease import lease_clocks
from .member import MemberState
from .process import Process
from .serving import decode_serves


def declared(tx: Transaction, name: str, clock: Clock) -> list[str]:
    """Return the fingerprint of a schedule's definition in each living member that declares it."""
    rows = tx.rows("membership", "member_serving", **lease_clocks(clock))
    return [
        fingerprint
        for _, host, pid, started, _, serves, state in rows
        if state != MemberState.STOPPING and not Process(host, pid, started).is_surely_dead()
        for each, fingerprint in decode_serves(serves).schedules
        if each == name
    ]
