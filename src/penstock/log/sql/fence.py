"""The Fence: only the owner of a slot, in its present epoch, may move what is staged there.

Its statement opens the moving transaction: it locks the slot rows that still match, and only those go on.
A stale owner finds none and writes nothing; a change of owner waits until the move has ended.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .contract import Call, Result, Rows
from .database import Transaction


@dataclass(frozen=True, slots=True)
class Fence:
    """What a member believes it owns: slots with their epochs."""

    owner: str
    epochs: Mapping[int, int]

    def slots(self) -> list[int]:
        """Return the slots, sorted."""
        return sorted(self.epochs)

    def lock(self, tx: Transaction, slots: Collection[int]) -> list[int]:
        """Lock those of the slots that are still owned in that epoch, and return them."""
        return locked(tx.execute(*self.locking(slots)))

    def locking(self, slots: Collection[int], *, waiting: bool = False) -> Call:
        """Return the statement that does; `locked` reads what it gives.

        `waiting`: only those that have something staged; it gives how many turned out to be another's.
        """
        wanted = sorted(slots)
        owned = Rows(slot=wanted, epoch=[self.epochs[slot] for slot in wanted])
        name = "fence_waiting" if waiting else "fence_slots"
        return Call("log", name, {"owner": self.owner, "owned": owned})


def locked(result: Result) -> list[int]:
    """Return the slots that were locked."""
    return [row[0] for row in result.rows]
