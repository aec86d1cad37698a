"""Recording that groups have a member, at most once an hour: retention waits for those that may return."""

from collections.abc import Collection

from penstock.clock import Clock, own_ms
from penstock.database.database import Transaction


def note_seen(tx: Transaction, groups: Collection[str], clock: Clock) -> None:
    """Record that groups have a member now, if that was last recorded an hour ago or more."""
    tx.change("delivery", "group_seen", names=sorted(groups), now_ms=own_ms(clock))
