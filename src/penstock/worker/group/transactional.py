"""Delivery to a group whose handlers commit with their cursors: its records go out in units of work."""

from penstock.clock import Clock
from penstock.database.database import Database
from penstock.delivery.machine import Delivery
from penstock.delivery.store import GroupStore

from ..handler import HandlerTask
from .delivery import GroupDelivery
from .partition_work import PartitionWork, Taken, pass_unhandled, put_back, task_of
from .unit import UNIT_RECORDS, Unit
from .unit_outcome import Broken, Committed, Part, Undone

_PartitionRun = list[Taken]  # of one partition, the oldest first
_FIRST_RECORDS = 16  # of a unit, until it is known how many it has time for


class TransactionalDelivery:
    """Hands out a group's records in units of work, and records how they end.

    The group does everything else. A partition is in one unit at a time and its records run there in the order of
    offsets; partitions run concurrently. A record that undid a unit runs alone from then on, so that it rolls back no
    other record. Not thread-safe: one loop owns it.
    """

    def __init__(self, database: Database, store: GroupStore, group: GroupDelivery, clock: Clock) -> None:
        self.group = group
        self._database, self._store, self._clock = database, store, clock
        limits = [handler.concurrency for handler in group.subscription.handlers if handler.concurrency]
        if database.dialect.writers is not None:
            limits.append(database.dialect.writers)
        self._most = min(limits, default=None)  # units at once
        self.out = 0  # units that have not ended
        self._alone: dict[int, int] = {}  # by partition: the record that undid a unit
        self._size = _FIRST_RECORDS  # of a unit: about twice the number that the last one had time for

    def start_units(self, limit: int) -> list[Unit]:
        """Hand out up to `limit` units: the records that may run now, spread over them."""
        if self._most is not None:
            limit = min(limit, self._most - self.out)
        if limit <= 0 or self.group.reader.stopped is not None:
            return []
        single, shared = list[_PartitionRun](), list[_PartitionRun]()
        try:
            self._choose(limit, single, shared)
            taken = [each for some in single + shared for each in some]
            cut = self.group.reader.fetch(taken)
            self.group.hand_out.write_down([each for each in taken if (each[0].number, each[1].offset) not in cut])
        except BaseException:  # take back the records that no task refers to
            self.group.put_back([each for some in single + shared for each in some])
            raise
        single, shared = _ours(single), _ours(shared)
        parts = [[part] for some in single if (part := _part(some, cut)) is not None]
        parts += _spread([part for some in shared if (part := _part(some, cut))], limit - len(parts))
        self.out += len(parts)
        return [Unit(self._database, self._store, each, self._clock) for each in parts]

    def expect(self, former: "TransactionalDelivery") -> None:
        """Count the units of a former delivery of this group, whose topic was deleted: they end here."""
        self.out += former.out

    def conclude(self, unit: Unit) -> None:
        """Record the outcome of a unit. Raises the store's error when that undid it."""
        self.out -= 1
        works = {part.number: work for part in unit.parts if (work := self._mine(part)) is not None}
        for work in works.values():
            work.borrowed = False
        for task in unit.tasks:
            work = works.get(task.place.partition)
            if work is not None and work.owned.trial.at_work:
                self.group.suspects.end(work, task.place.offset, survived=True)
        match unit.outcome:
            case Committed(done):
                self._size = min(max(2 * done, _FIRST_RECORDS), UNIT_RECORDS)
                self._commit(unit, works, done)
            case Undone(failed, None, called):
                _undo(unit, works, called)
                self._alone[failed.place.partition] = failed.place.offset
            case Undone(failed, verdict, _):
                self._alone.pop(failed.place.partition, None)
                self.group.finish(failed, verdict)
            case Broken(error, in_doubt):
                if in_doubt:
                    self._lose(unit, works)
                else:
                    _undo(unit, works, unit.called)
                if error is not None:
                    raise error

    def interrupt(self, unit: Unit) -> None:
        """Record that a unit was abandoned: the records it has called come again, and are marked."""
        self.out -= 1
        works = {part.number: work for part in unit.parts if (work := self._mine(part)) is not None}
        for work in works.values():
            work.borrowed = False
        _undo(unit, works, unit.called)

    def _choose(self, limit: int, single: list[_PartitionRun], shared: list[_PartitionRun]) -> None:
        """Take the records for `limit` units: those that run alone, and runs that may share one."""
        group, now_ms, room = self.group, self._clock.now_ms(), limit * self._size
        turn = group.suspects.trials.turn()
        for work in group.partitions.in_turn():
            if len(single) + bool(shared) >= limit and (not shared or room <= 0):
                group.partitions.begin_next_with(work.number)
                return
            if work.leaving or work.borrowed or work.machine.idle(now_ms) or not work.owned.barrier.is_open:
                continue
            if group.settlements.is_unwritten(work.number):
                continue  # the unwritten settlement comes first, in a transaction of its own
            if turn is not None:
                if turn.work is work:
                    single += [[each] for each in group.suspects.take(work, now_ms, 1)]
                continue
            taken = sorted(work.machine.take(now_ms, 2 * UNIT_RECORDS, UNIT_RECORDS))
            mine = self._together(work, taken, min(room, self._size))
            if not mine:
                continue
            if group.suspects.are_among(mine):
                put_back(mine)
                if len(single) + bool(shared) < limit and (some := self._suspected(work, now_ms)):
                    single.append(some)
                continue
            first = mine[0][1]
            if not first.failures and first.offset != self._alone.get(work.number):
                shared.append(mine)
                room -= len(mine)
            elif len(single) + bool(shared) < limit:
                single.append(mine)
            else:
                put_back(mine)

    def _suspected(self, work: PartitionWork, now_ms: int) -> _PartitionRun:
        """Take the suspects that may begin now and run together; one that must run alone, alone."""
        suspects = self.group.suspects
        taken = sorted(each for _, each in suspects.take(work, now_ms, self._size))
        return self._together(work, taken, 1 if work.owned.trial.alone else len(taken))

    def _together(self, work: PartitionWork, taken: list[Delivery], most: int) -> _PartitionRun:
        """Return the records for one unit: one that failed, or undid a unit, alone; take the rest back."""
        apart = self._alone.get(work.number)
        kept = 0
        for each in taken[:most]:
            if each.failures or each.offset == apart:
                kept = kept or 1
                break
            kept += 1
        for each in reversed(taken[kept:]):
            work.machine.untake(each.offset)
        return [(work, each) for each in taken[:kept]]

    def _mine(self, part: Part) -> PartitionWork | None:
        """Return the partition of a part, if it is still the same take that was borrowed."""
        work = self.group.partitions.get(part.number)
        return work if work is not None and work.owned is part.owned else None

    def _commit(self, unit: Unit, works: dict[int, PartitionWork], done: int) -> None:
        for task in unit.tasks[:done]:
            number, offset = task.place
            work = works.get(number)
            if work is not None:
                self.group.records.drop(work, offset)
                work.owned.repeats.discard(offset)
                if self._alone.get(number) == offset:
                    del self._alone[number]
        for number, settlement in unit.settled.items():
            if number in works:
                works[number].settled_to = max(works[number].settled_to, settlement.reach)

    def _lose(self, unit: Unit, works: dict[int, PartitionWork]) -> None:
        partitions = self.group.partitions
        for number in works:
            partitions.lose_in_doubt(number)
        for task in unit.tasks[: unit.called]:
            partitions.note_lost(task.place.partition, {task.place.offset})
        partitions.needs_check = True


def _part(some: _PartitionRun, cut: set[tuple[int, int]]) -> Part | None:
    """Return the records of one partition as tasks; pass those whose handler is gone."""
    work = some[0][0]
    tasks = list[HandlerTask]()
    kept = 0
    for _, each in some:
        if (work.number, each.offset) in cut:
            break
        kept += 1
        if each.offset in work.records:
            tasks.append(task_of(work, each))
        else:  # its topic or its handler is gone
            pass_unhandled(work, each)
    put_back(some[kept:])
    if not tasks:
        return None
    work.borrowed = True
    return Part(work.number, work.owned, tasks)


def _ours(runs: list[_PartitionRun]) -> list[_PartitionRun]:
    return [some for some in runs if not some[0][0].lost]


def _undo(unit: Unit, works: dict[int, PartitionWork], called: int) -> None:
    """Take all records of a unit back; those that were called may have had effects elsewhere."""
    for task in reversed(unit.tasks):
        work = works.get(task.place.partition)
        if work is not None:
            work.machine.untake(task.place.offset)
    begun: dict[int, set[int]] = {}
    for task in unit.tasks[:called]:
        begun.setdefault(task.place.partition, set()).add(task.place.offset)
    for number, offsets in begun.items():
        work = works.get(number)
        if work is not None:
            work.owned.repeats |= offsets
            work.owned.crashes = max(1, work.owned.crashes)  # the next owner marks them, too
            work.machine.touch()


def _spread(parts: list[Part], count: int) -> list[list[Part]]:
    """Divide the parts among `count` units, about as many records in each; a part is not divided."""
    units, share = list[list[Part]](), sum(len(part.tasks) for part in parts) / max(1, count)
    size = 0.0
    for part in parts:
        if not units or size >= share:
            units.append([])
            size = 0.0
        units[-1].append(part)
        size += len(part.tasks)
    return units
