"""The Fence: only the owner of a slot, in its present epoch, may move what is staged there.

Its statement opens the moving transaction: it locks the slot rows that still match, and only those go on.
A stale owner finds none and writes nothing; a change of owner waits until the move has ended.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .contract import Rows
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
        wanted = sorted(slots)
        owned = Rows(slots=wanted, epochs=[self.epochs[slot] for slot in wanted])
        return [row[0] for row in tx.rows("log", "fence_slots", owner=self.owner, owned=owned)]
