"""Moving the cursors of a unit of work in the transaction of its handlers."""

from collections.abc import Sequence

from penstock.database.database import Transaction
from penstock.delivery.machine import Settlement
from penstock.delivery.store import GroupStore, Owned
from penstock.delivery.verdict import Verdict

from ..calling.attempt import PASSED
from ..group.bounds import as_much_again
from .unit_end import Part


class CursorLost(Exception):
    """Another owner has a partition of the unit: nothing of the unit may be committed."""


class CursorMove:
    """The settlement of a unit's partitions: written last in the transaction, confirmed after the commit.

    It finishes the records in their machines, which only the unit uses while it works. `has_begun`: from then
    on the machines have moved, so without a commit the partitions must be taken again. In the unit's thread.
    """

    def __init__(self, store: GroupStore, parts: Sequence[Part]) -> None:
        self._store, self._parts = store, parts
        self._written: dict[int, tuple[Owned, Settlement]] = {}
        self._skips: set[int] = set()
        self.has_begun = False

    @property
    def settled(self) -> dict[int, Settlement]:
        """The settlement of each partition, once it is committed."""
        return {number: settlement for number, (_, settlement) in self._written.items()}

    def write(self, tx: Transaction, count: int, verdict: Verdict = PASSED) -> None:
        """Pass the first `count` records, with this verdict, and move their cursors. Raises CursorLost."""
        self.has_begun = True
        written: dict[int, tuple[Owned, Settlement]] = {}
        left = count
        for part in self._parts:
            machine, done = part.owned.machine, part.tasks[:left]
            for task in reversed(part.tasks[len(done) :]):
                machine.untake(task.place.offset)
            for task in done:
                machine.finish(task.place.offset, verdict)
            left -= len(done)
            settlement = machine.settlement(as_much_again(len(done))) if done else None
            if settlement is not None:
                part.owned.plan(settlement)
                written[part.number] = (part.owned, settlement)
        lost, self._skips = self._store.settle_in(tx, written)
        if lost:
            raise CursorLost
        self._written = written

    def confirm(self) -> None:
        """Record that the transaction has committed."""
        for number, (owned, settlement) in self._written.items():
            owned.settled(settlement, skips=number in self._skips)
