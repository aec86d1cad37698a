"""A member: one running process with a lease, and the slots it owns.

Liveness is per member (one row, one heartbeat); fencing is per slot (owner and epoch in its row). Time is the
database's clock, and among members of one host that host's clock, which nothing sets (`lease_clocks`). The lease only
decides when others may take over; the epoch, compared at the write, keeps a stale owner from writing. A member trusts
its lease up to a monotonic deadline, counted from when it sent its last good heartbeat.

Smallest form: a member takes every slot that no living member owns. `sharing.py` has the form that shares.
"""

import logging
from dataclasses import astuple
from datetime import timedelta
from enum import StrEnum
from threading import Event
from uuid import uuid4

from penstock import metrics, points
from penstock.clock import Clock, host_ms, own_ms
from penstock.database.database import Database, Transaction
from penstock.errors import SettingOutOfRange, StoreReplaced
from penstock.log.sql.heads import Fence
from penstock.settings import Settings, setting

from .domain import touch
from .process import Process, lease_clocks, this_process
from .serving import NOTHING, SLOTS, MemberStatus, decode_serves

logger = logging.getLogger("penstock.membership")

AFTER_TAKE = points.declare("membership.after_take", "Slots have a new owner in the open transaction.")
AFTER_RELEASE = points.declare("membership.after_release", "Slots are given back and committed; the member remains.")


class MemberState(StrEnum):
    """A member's own state: at work, or finishing its work and taking nothing more."""

    RUNNING = "running"
    STOPPING = "stopping"


class ClusterSettings(Settings, room="cluster"):
    """How processes share the work."""

    heartbeat_interval: timedelta = setting(timedelta(seconds=5), "Time between two heartbeats.", at_least=0.01)
    lease_ttl: timedelta = setting(
        timedelta(seconds=30), "A member that is silent for this long may be replaced.", at_least=0.1
    )
    node_removal_after: timedelta = setting(
        timedelta(seconds=300), "How long the row of a dead member is kept.", at_least=1
    )
    rebalance_interval: timedelta = setting(
        timedelta(seconds=10), "Time between two looks at who should own what.", at_least=0.01
    )
    gather_joins: timedelta = setting(
        timedelta(seconds=3), "How long new members wait for others to join with them.", at_least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heartbeat_interval * 2 > self.lease_ttl:
            wanted = f"at most half of cluster.lease_ttl, which is {self.lease_ttl.total_seconds():g} s"
            beat = self.heartbeat_interval.total_seconds()
            raise SettingOutOfRange("cluster.heartbeat_interval", beat, wanted, "settings")


class Member:
    """This process as a member. Not thread-safe, except for `fence`, `is_live` and `lease_seconds`."""

    def __init__(self, database: Database, settings: ClusterSettings, clock: Clock, *, dedicated: bool = False) -> None:
        """`dedicated`: the process does nothing else, so a record may be the cause of its death."""
        self.id, self._dedicated = str(uuid4()), dedicated
        self._database, self._settings, self._clock = database, settings, clock
        self._epochs: dict[int, int] = {}
        self._deadline = 0.0
        self._serves, self._state = NOTHING.encode(), MemberState.RUNNING
        self._status: str | None = None
        self._log_id: str | None = None  # of the store that was joined first
        self.lapses = 0  # how often the lease had run out before it was renewed

    @property
    def fence(self) -> Fence:
        """The slots and epochs this member believes it owns; empty once its lease may have run out."""
        return Fence(self.id, dict(self._epochs) if self.is_live() else {})

    def is_live(self) -> bool:
        """Return whether no other member can have taken over yet, as far as this process can know."""
        return self._clock.monotonic() < self._deadline

    @property
    def has_neighbours(self) -> bool:
        """Whether there were other members at the last heartbeat; a member that does not share cannot know."""
        return False

    def lease_seconds(self) -> float | None:
        """Return how long the lease still runs, below 0 once it has run out; None before the first lease."""
        return self._deadline - self._clock.monotonic() if self._deadline else None

    def join(self) -> None:
        """Become a member with a fresh lease. Raises StoreReplaced."""
        sent = self._clock.monotonic()
        self._database.run(self._join)
        self._renewed(sent)

    def heartbeat(self) -> None:
        """Renew the lease, joining again if this member was removed, and learn the slots it still owns."""
        sent = self._clock.monotonic()
        said = {"id": self.id, "status": self._status}
        if self._database.run(lambda tx: tx.change("membership", "member_beat", **said, **self._times())):
            self._renewed(sent)
        else:
            self.join()
        self._learn()

    def tell(self, status: MemberStatus) -> None:
        """Set the status of this member; others can read it from the next heartbeat on."""
        self._status = status.encode()

    def take(self) -> int:
        """Take every slot that no living member owns; return how many are owned now."""
        if self._database.look(self._slots_seem_free):
            taken = self._database.run(self._take)
            if taken:
                logger.info("member %s took %d slots", self.id, len(taken), extra={"member": self.id})
            self._epochs.update(taken)
        return len(self._epochs)

    def release(self) -> None:
        """Release every slot, so that others may take them at once."""
        self._epochs = {}
        self._database.run(self._release)
        points.reach(AFTER_RELEASE)

    def leave(self) -> None:
        """Release everything and stop being a member."""
        self.release()
        self._deadline = 0.0
        self._database.run(lambda tx: tx.change("membership", "member_leave", id=self.id))

    def _join(self, tx: Transaction) -> None:
        host, pid, started = astuple(this_process())
        log_ids = [row[0] for row in tx.rows("database", "meta_read", name="log_id")]
        if self._log_id is not None and log_ids != [self._log_id]:
            raise StoreReplaced  # there, the ids of this process's groups and topics may belong to others
        self._log_id = log_ids[0] if log_ids else None
        said = {"serves": self._serves, "dedicated": self._dedicated, "state": self._state.value, **self._times()}
        tx.change("membership", "member_join", id=self.id, host=host, pid=pid, started=started, **said)

    def _slots_seem_free(self, tx: Transaction) -> bool:
        return bool(tx.rows("membership", "slots_free", living=self.living(tx))[0][0])

    def _release(self, tx: Transaction) -> None:
        touch(tx, SLOTS)
        tx.change("membership", "slots_release", id=self.id)

    def _take(self, tx: Transaction) -> dict[int, int]:
        tx.rows("membership", "take_turn")  # before the look at the living members: see `living`
        rows = tx.rows("membership", "slots_take", id=self.id, living=self.living(tx))
        points.reach(AFTER_TAKE)
        self._prune(tx)
        return {row[0]: row[1] for row in rows}

    def _prune(self, tx: Transaction) -> None:
        removal_ms = self._settings.node_removal_after // timedelta(milliseconds=1)
        tx.change("membership", "member_prune", removal_ms=removal_ms, **lease_clocks(self._clock))

    def living(self, tx: Transaction) -> list[str]:
        """Return the members that may still be at work, this one included.

        A taker of rows must hold a lock that all takers hold, or it would rob a member that has joined since.
        """
        rows = tx.rows("membership", "member_list", **lease_clocks(self._clock))
        return [
            id
            for id, host, pid, started, leased in rows
            if id == self.id or (leased and not Process(host, pid, started).is_surely_dead())
        ]

    def present(self) -> list[str]:
        """Return the members present now, this one included, as far as one look can tell."""
        return self._database.look(self.living)

    def count_slots(self, tx: Transaction, living: list[str]) -> tuple[int, int]:
        """Return how many slots it owns, and how many no living member owns."""
        ((owned, free),) = tx.rows("membership", "gauge_slots", owner=self.id, living=living)
        return owned, free

    def gone(self, tx: Transaction) -> list[str]:
        """Return the dedicated members whose processes have certainly ended."""
        rows = tx.rows("membership", "members_dedicated")
        return [
            id
            for id, host, pid, started, died in rows
            if id != self.id and (died or Process(host, pid, started).is_surely_dead())
        ]

    def _learn(self) -> None:
        rows = self._database.look(lambda tx: tx.rows("membership", "slots_owned", id=self.id))
        owned = {row[0]: row[1] for row in rows}
        lost = self._epochs.keys() - owned.keys()
        if lost:
            lost_them = "member %s lost %d slots to another"
            logger.warning(lost_them, self.id, len(lost), extra={"member": self.id})
        self._epochs = owned

    def _renewed(self, sent: float) -> None:
        if self._deadline and not self.is_live():
            self.lapses += 1
            metrics.LEASE_LAPSES.add()
        self._deadline = sent + self._settings.lease_ttl.total_seconds()

    def _times(self) -> dict[str, int | None]:
        return {
            "lease_ms": self._settings.lease_ttl // timedelta(milliseconds=1),
            "now_ms": own_ms(self._clock),
            "host_ms": host_ms(self._clock),
        }


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


_LOOK_MS = 100


def wait_until_heard(database: Database, clock: Clock) -> None:
    """Return once each living member has read what the caller has committed, or its lease has ended."""
    leases, longest_ms = database.look(lambda tx: _leases(tx, clock))
    for _ in range(0, longest_ms, _LOOK_MS):
        if not leases:
            return
        Event().wait(_LOOK_MS / 1000)
        now, _ = database.look(lambda tx: _leases(tx, clock))
        leases = {id: until for id, until in leases.items() if now.get(id) == until}


def _leases(tx: Transaction, clock: Clock) -> tuple[dict[str, int], int]:
    rows = tx.rows("membership", "member_leases", **lease_clocks(clock))
    living = [row for row in rows if not Process(*row[1:4]).is_surely_dead()]
    return {row[0]: row[4] for row in living}, max((row[5] for row in living), default=0)
