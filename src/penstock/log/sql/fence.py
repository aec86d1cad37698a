"""The Fence: only the owner of a slot, in its present epoch, may move the slot's staged rows.

Its statement opens the moving transaction: it locks the slot rows that still match, and only those slots are
moved. A stale owner finds none and writes nothing; a change of owner waits until the move has ended.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.database.contract import Call, Result, Rows
from penstock.database.database import Transaction


@dataclass(frozen=True, slots=True)
class Fence:
    """The slots that a member believes it owns, with their epochs."""

    owner: str
    epochs: Mapping[int, int]

    def slots(self) -> list[int]:
        """Return the slots, sorted."""
        return sorted(self.epochs)

    def lock(self, tx: Transaction, slots: Collection[int]) -> list[int]:
        """Lock and return those of the slots that are still owned in their epochs."""
        return locked(tx.execute(*self.locking(slots)))

    def locking(self, slots: Collection[int], *, waiting: bool = False) -> Call:
        """Return the locking statement; `locked` reads its result.

        `waiting`: only lock slots with staged rows; the result is the number of slots lost to another owner.
        """
        wanted = sorted(slots)
        owned = Rows(slot=wanted, epoch=[self.epochs[slot] for slot in wanted])
        name = "fence_waiting" if waiting else "fence_slots"
        return Call("log", name, {"owner": self.owner, "owned": owned})


def locked(result: Result) -> list[int]:
    """Return the locked slots."""
    return [row[0] for row in result.rows]
