"""Owners of slots: processes that can be stopped, and what the database knows about them."""

from __future__ import annotations

from datetime import timedelta

from penstock.membership.member import Member
from tests.crash.children import Child
from tests.crash.store import Store

LEASE = timedelta(seconds=1)  # of the one that is stopped; its heir has a long one, and keeps what it took
BEAT = timedelta(milliseconds=100)


def a_child(store: Store, point: str, *, sleepwalking: bool = False) -> Child:
    """Start a process with a sequencing service that stops itself when it first comes to a point."""
    return Child(
        "sequence", url=store.url, lease_seconds=LEASE.total_seconds(), stop_at=point, sleepwalking=sleepwalking
    )


def owns_all(member: Member) -> bool:
    """Keep a member alive, let it take what is free, and return whether it owns every slot."""
    member.heartbeat()
    return member.take() == 256


def members(store: Store) -> list[tuple[str, int]]:
    """Return the members and the ends of their leases, by the database's clock."""
    return [(row[0], row[1]) for row in store.rows("SELECT id, lease_until_ms FROM penstock_member")]


def owned(store: Store, member: str) -> int:
    """Return how many slots a member owns."""
    return int(store.rows("SELECT count(*) FROM penstock_slot WHERE owner = ?", member)[0][0])


def epoch_sum(store: Store) -> int:
    """Return the sum of all slots' epochs."""
    return int(store.rows("SELECT sum(epoch) FROM penstock_slot")[0][0])
