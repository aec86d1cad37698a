"""A member that shares the work: it announces its groups, owns its share, and hands over the rest.

Any member computes the wanted owner of every row (`rebalance`) and writes it into the rows. Each member learns from the
domains' versions (`look`), releases the rows that others should own, and takes those it should own once they are free.
This module exchanges slots, the store of delivery cursors; both `touch` when they release.
"""

import logging
from datetime import timedelta

from penstock.clock import Clock, host_ms, own_ms
from penstock.database.contract import Rows
from penstock.database.database import Database, Transaction
from penstock.database.migrations import SchemaState, schema_state

from .domain import Held, View, changes, lock, read, touch, write
from .filters import Filter, have_nothing_in_common
from .member import ClusterSettings, Member, MemberState
from .process import Process, lease_clocks
from .serving import NOTHING, SLOTS, Domain, Present, Serves, decode_serves

logger = logging.getLogger("penstock.membership")


class SharingMember(Member):
    """This process as a member that shares. Not thread-safe, except for `fence`, which returns a value."""

    def __init__(self, database: Database, settings: ClusterSettings, clock: Clock, *, dedicated: bool = False) -> None:
        super().__init__(database, settings, clock, dedicated=dedicated)
        self._serving = NOTHING
        self._domains: set[Domain] = set()  # all it ever served: those it no longer serves it must hand over
        self._versions: dict[Domain, int] = {}
        self._due: set[Domain] = set()
        self._neighbours: dict[str, Process] = {}
        self.schema: SchemaState | None = None  # as the tables stated it at the last heartbeat
        self._known_dead: set[str] = set()

    def serve(self, serves: Serves) -> None:
        """Set what this member takes part in from now on; before it joins, or at any time after."""
        if serves == self._serving:
            return
        self._serves = serves.encode()
        self._domains |= set(serves.domains())
        self._database.run(lambda tx: tx.change("membership", "member_serve", id=self.id, serves=self._serves))
        self._serving = serves  # only once it is committed: otherwise a retry would count as done

    def join(self) -> None:
        """Become a member with a fresh lease; the next `look` returns every domain."""
        self._versions = {}
        super().join()

    def heartbeat(self) -> None:
        """Renew the lease, joining again if needed; learn the slots still owned and the local members."""
        super().heartbeat()
        rows = self._database.look(lambda tx: tx.rows("membership", "member_neighbours"))
        self.schema = next((schema_state(*row[4:6]) for row in rows), self.schema)
        self._neighbours = {row[0]: Process(*row[1:4]) for row in rows if row[0] != self.id}
        self._known_dead &= self._neighbours.keys()

    @property
    def has_neighbours(self) -> bool:
        return bool(self._neighbours)

    def neighbours_died(self) -> bool:
        """Return whether a process of this host has gone since the last call; asks no database."""
        dead = {id for id, process in self._neighbours.items() if process.is_surely_dead()}
        new = dead - self._known_dead
        self._known_dead = self._known_dead | new
        return bool(new)

    def strangers(self) -> dict[int, tuple[str, Filter]]:
        """Return, by group id, a member whose handlers have nothing in common with ours, and its filter."""
        present, _ = self._database.look(self._present)
        found: dict[int, tuple[str, Filter]] = {}
        for group in self._serving.groups:
            for each in present:
                other = each.serves.filter(group.id)
                if other is not None and have_nothing_in_common(group.filter, other):
                    found[group.id] = each.id, other
        return found

    def rebalance(self) -> None:
        """Ensure that all served rows have an owner; one query if so. Skips domains locked by another."""
        view, living, dead = self._database.look(self._hint)
        self._due |= view.due(self.id, living)
        found = changes(view, gather_ms=self._gather_ms())
        stale = {*found.members, *(each for each in self._domains if each.group_id in found.filters)}
        if stale or dead:
            new = sorted(each.name for each in stale - view.members.keys())
            self._database.run(lambda tx: self._reassign(tx, stale, new, wait=False))

    def look(self) -> set[Domain]:
        """Return the served domains whose version rose since the last look, or with work left; first, all."""
        names = sorted(domain.name for domain in self._domains)
        rows = self._database.look(lambda tx: tx.rows("membership", "domains_read", names=names))
        versions = {row[0]: row[1] for row in rows}
        changed, self._due = self._due, set()
        for domain in self._domains:
            version = versions.get(domain.name, 0)
            if self._versions.get(domain) != version:
                self._versions[domain] = version
                changed.add(domain)
        return changed

    def exchange_slots(self) -> bool:
        """Release slots that others should own, take those it should; return whether it took any."""
        rows, living = self._database.look(lambda tx: (tx.rows("membership", "slots_shared"), self.living(tx)))
        due = {row[0]: row[1] for row in rows if Held(row[1], row[2]).is_due(self.id, living)}
        given = {slot for slot, owner in due.items() if owner == self.id}
        if given:
            self._epochs = {slot: epoch for slot, epoch in self._epochs.items() if slot not in given}
            self._database.run(self._give)
        taken = self._database.run(self._take_wanted) if due.keys() - given else 0
        if due:
            gave = "member %s gave %d slots and took %d"
            logger.info(gave, self.id, len(given), taken, extra={"member": self.id})
        if taken < len(due) - len(given):
            self._due.add(SLOTS)  # their last owner is in the middle of a move: they are free soon
        self._learn()
        return taken > 0

    def begin_to_stop(self) -> None:
        """Announce that it stops: others should own its rows, and take each once it is released."""
        self._state = state = MemberState.STOPPING
        self._database.run(lambda tx: tx.change("membership", "member_state", id=self.id, state=state.value))
        if self._domains:
            self._database.run(lambda tx: self._reassign(tx, self._domains, [], wait=True))

    def leave(self) -> None:
        """Release the slots, stop being a member, and let the others share the rows it should have owned."""
        super().leave()
        if self._domains:
            self._database.run(lambda tx: self._reassign(tx, self._domains, [], wait=True))

    def _hint(self, tx: Transaction) -> tuple[View, list[str], list[str]]:
        present, dead = self._present(tx)
        return read(tx, self._domains, present, locked=False), self.living(tx), dead

    def _reassign(self, tx: Transaction, domains: set[Domain], new: list[str], *, wait: bool) -> None:
        if new:
            tx.change("membership", "domains_create", domains=Rows(name=new))
        locked = lock(tx, domains, wait=wait)
        present, dead = self._present(tx)  # after the lock: a list read before it would be stale
        for id in dead:  # members on other hosts cannot know, and would count it until its lease ends
            moment = {"now_ms": own_ms(self._clock), "host_ms": host_ms(self._clock)}
            tx.change("membership", "member_died", id=id, **moment)
        view = read(tx, locked, present, locked=True)
        write(tx, changes(view, gather_ms=self._gather_ms()))
        self._prune(tx)

    def _give(self, tx: Transaction) -> None:
        touch(tx, SLOTS)
        tx.change("membership", "slots_give", id=self.id)

    def _take_wanted(self, tx: Transaction) -> int:
        tx.rows("membership", "take_turn")  # before the look at the living members: see `living`
        return tx.change("membership", "slots_take_wanted", id=self.id, living=self.living(tx))

    def _present(self, tx: Transaction) -> tuple[list[Present], list[str]]:
        """Return the members to count on, and those that are surely dead; here too the lease decides."""
        rows = tx.rows("membership", "member_serving", **lease_clocks(self._clock))
        dead = [row[0] for row in rows if row[0] != self.id and Process(*row[1:4]).is_surely_dead()]
        return [
            Present(row[0], row[4], decode_serves(row[5]))
            for row in rows
            if row[0] not in dead and row[6] != MemberState.STOPPING
        ], dead

    def _gather_ms(self) -> int:
        return self._settings.gather_joins // timedelta(milliseconds=1)
