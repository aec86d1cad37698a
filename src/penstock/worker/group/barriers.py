"""The barriers of partitions added when their topic grew: closed until their keys are done elsewhere."""

from penstock.clock import Clock
from penstock.delivery.store import GroupStore

from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork

LOOK_SECONDS = 0.05  # shortest time between two looks while something waits,
_SELDOM_SECONDS = 1.0  # and the longest, while nothing changes


class Barriers:
    """Checks periodically the work that the group still has in the partitions where these keys were before.

    It costs nothing while no partition is closed and no key waits for another partition. One thread, the
    delivery loop's.
    """

    def __init__(
        self, store: GroupStore, partitions: OwnedPartitions, clock: Clock, every_seconds: float
    ) -> None:
        self._store, self._partitions, self._clock = store, partitions, clock
        self._least = self._pause = every_seconds
        self.next_look: float | None = None  # while something waits

    def refresh(self) -> None:
        """Look if a look is due; open the partitions that may be read, release the keys whose turn it is."""
        if not self._partitions.grown:
            self.next_look = None
            return
        waiting = {
            number: work
            for number, work in self._partitions.grown.items()
            if not work.borrowed and not work.leaving and _waits(work)
        }
        now = self._clock.monotonic()
        if not waiting:
            self._pause, self.next_look = self._least, None
        elif self.next_look is None or now >= self.next_look:
            barriers = self._store.barriers(waiting)
            is_changed = any(work.owned.barrier != barriers[number] for number, work in waiting.items())
            for number, work in waiting.items():
                work.owned.close(barriers[number])
            self._pause = self._least if is_changed else min(2 * self._pause, _SELDOM_SECONDS)
            self.next_look = now + self._pause


def _waits(work: PartitionWork) -> bool:
    return not work.owned.barrier.is_open or work.machine.has_moved
