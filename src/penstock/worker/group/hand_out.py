"""Writing down the records that go out, before they do: how far, and which suspects."""

from penstock.delivery.offset_sets import GoingOut
from penstock.delivery.store import GroupStore, Owned

from . import bounds
from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork, Taken, put_back
from .settling import Settling
from .suspects import Suspects


class HandOut:
    """Ensures that no record begins that a successor would fail to mark if this owner is lost.

    The row of a partition says which records may have been handed out. Each settlement moves that on, so this
    class writes only when more records go out at once than lately. One thread, the delivery loop's.
    """

    def __init__(
        self, store: GroupStore, partitions: OwnedPartitions, suspects: Suspects, settling: Settling
    ) -> None:
        self._store, self._partitions = store, partitions
        self._suspects, self._settling = suspects, settling

    def write_down(self, taken: list[Taken], *, writes: bool = True) -> list[Taken]:
        """Return the records that may begin; the rest is removed and taken back, or its partition is lost.

        `writes`: without it no record goes out beyond the present rows, nor does any in a
        partition whose settlement is still unwritten: that comes first.
        """
        counts: dict[PartitionWork, int] = {}
        beyond = set[PartitionWork]()
        for work, each in taken:
            counts[work] = counts.get(work, 0) + 1
            going_out = work.owned.going_out
            if each.offset >= going_out.to or each.offset in going_out.kept_back:
                beyond.add(work)
        waiting = {work for work in beyond if not writes or self._settling.is_unwritten(work.number)}
        if waiting:
            kept, back = list[Taken](), list[Taken]()
            for work, each in taken:
                goes = work not in waiting or work.owned.going_out.has(each.offset)
                (kept if goes else back).append((work, each))
            put_back(back)
            taken[:] = kept
        going = {work: work.owned.going_out for work in self._suspects.begin(taken)}
        for work in beyond - waiting:
            more = bounds.as_much_again(counts[work] // 4)
            going[work] = work.owned.with_repeats(work.machine.going_out(more))
        self._write({work.number: (work.owned, each) for work, each in going.items()})
        return [each for each in taken if not each[0].lost]

    def _write(self, cursors: dict[int, tuple[Owned, GoingOut]]) -> None:
        for number in self._store.hand_out(cursors) if cursors else ():
            self._partitions.lose(number)
            self._partitions.needs_check = True
