"""The engine of a group whose handlers commit with their cursors.

It hands out units of work instead of single tasks. A partition is in one unit at a time and worked there in
the order of offsets; partitions run beside each other. A record that failed goes alone from then on, so that
it takes nobody else's work back with it.
"""

from penstock.clock import Clock
from penstock.delivery.machine import Delivery
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Passed
from penstock.log.contract import Log
from penstock.log.sql.database import Database

from .engine import Engine, Work
from .handlers import Subscription
from .task import Place, Task
from .unit import UNIT_RECORDS, Unit
from .unit_end import Broken, Committed, Part, Undone

_Taken = list[tuple[int, Work, Delivery]]


class TransactionalEngine(Engine):
    """Delivery to one group in units of work. Not thread-safe: one loop owns it."""

    def __init__(
        self,
        database: Database,
        log: Log,
        store: GroupStore,
        subscription: Subscription,
        clock: Clock,
    ) -> None:
        super().__init__(log, store, subscription, clock)
        self._database = database
        limits = [handler.concurrency for handler in subscription.handlers if handler.concurrency]
        if database.dialect.writers is not None:
            limits.append(database.dialect.writers)
        self._most = min(limits, default=None)  # units at once
        self._out = 0
        self._alone: dict[int, int] = {}  # the record of a partition that undid a unit
        self._in_doubt: set[int] = set()  # partitions that may be ours still, since a commit is in doubt

    def start_units(self, limit: int) -> list[Unit]:
        """Hand out up to so many units: what may run now, spread over them."""
        if self._most is not None:
            limit = min(limit, self._most - self._out)
        if limit <= 0:
            return []
        single, shared = list[_Taken](), list[_Taken]()
        try:
            self._choose(limit, single, shared)
            cut = self._fetch([each for some in single + shared for each in some])
        except BaseException:  # nothing stays out that nobody was told of
            self._take_back([each for some in single + shared for each in some])
            if self._careful_out in [Place(some[0][0], some[0][2].offset) for some in single]:
                self._careful_out = None
            raise
        parts = [[part] for some in single if (part := self._part(some, cut)) is not None]
        parts += _spread([part for some in shared if (part := self._part(some, cut))], limit - len(parts))
        self._out += len(parts)
        return [Unit(self._database, self._store, each, self._clock) for each in parts]

    def conclude(self, unit: Unit) -> None:
        """Take note of what became of a unit. Raises the store's error when that undid it."""
        self._out -= 1
        works = {part.number: work for part in unit.parts if (work := self._mine(part)) is not None}
        for work in works.values():
            work.borrowed = False
        for task in unit.tasks:
            if task.place == self._careful_out:
                self._careful_out = None
        match unit.outcome:
            case Committed(done):
                for task in unit.tasks[:done]:
                    number, offset = task.place
                    if number in works:
                        self._done(works[number], offset)
                        if self._alone.get(number) == offset:
                            del self._alone[number]
                for number, settlement in unit.settled.items():
                    if number in works:
                        works[number].settled_to = max(works[number].settled_to, settlement.reach)
            case Undone(failed, None, called):
                self._undo(unit, works, called)
                self._alone[failed.place.partition] = failed.place.offset
            case Undone(failed, verdict, _):
                self._alone.pop(failed.place.partition, None)
                self.finish(failed, verdict)
            case Broken(error, in_doubt):
                if in_doubt:
                    self._in_doubt.update(works)
                    for number in works:
                        self._lose(number)
                    for task in unit.tasks[: unit.called]:
                        self._lost_out.setdefault(task.place.partition, set()).add(task.place.offset)
                    self.needs_check = True
                else:
                    self._undo(unit, works, unit.called)
                if error is not None:
                    raise error

    def release(self) -> None:
        """Give everything back, also what a commit in doubt has left: a lost connection is no crash."""
        doubtful, self._in_doubt = self._in_doubt, set()
        gone = list(self._works)
        for number in gone:
            self._lose(number)
        self._store.release({*gone, *doubtful})

    # -- inside

    def _choose(self, limit: int, single: list[_Taken], shared: list[_Taken]) -> None:
        """Take what may run now: what must go alone, and what can go together, for so many units."""
        now_ms, room = self._clock.now_ms(), limit * UNIT_RECORDS
        for number, work in self._in_turn():
            if len(single) + bool(shared) >= limit and (not shared or room <= 0):
                self._turn = number
                return
            if work.leaving or work.borrowed or number in self._unsettled or work.machine.idle(now_ms):
                continue  # what is not written yet comes first, in a transaction of its own
            if work.owned.crashes:
                if self._careful_out is None and (careful := self._careful(number, work, now_ms)):
                    single.append(careful)
                continue
            mine = self._take(number, work, now_ms, min(room, UNIT_RECORDS))
            if not mine:
                continue
            first = mine[0][2]
            if not first.failures and first.offset != self._alone.get(number):
                shared.append(mine)
                room -= len(mine)
            elif len(single) + bool(shared) < limit:
                single.append(mine)
            else:
                self._take_back(mine)

    def _take(self, number: int, work: Work, now_ms: int, most: int) -> _Taken:
        """Take what may run now, oldest first; one that failed, or undid a unit, by itself."""
        taken = sorted(work.machine.take(now_ms, 2 * UNIT_RECORDS, UNIT_RECORDS))
        apart = self._alone.get(number)
        kept = 0
        for each in taken[:most]:
            if each.failures or each.offset == apart:
                kept = kept or 1
                break
            kept += 1
        for each in reversed(taken[kept:]):
            work.machine.untake(each.offset)
        return [(number, work, each) for each in taken[:kept]]

    def _part(self, some: _Taken, cut: set[tuple[int, int]]) -> Part | None:
        """Return the records of one partition as tasks; those whose handler is gone are done."""
        number, work, _ = some[0]
        tasks = list[Task]()
        kept = 0
        for _, _, each in some:
            if (number, each.offset) in cut:
                break
            kept += 1
            if each.offset in work.records:
                tasks.append(self._task(number, work, each))
            else:  # its topic or its handler is gone
                work.machine.finish(each.offset, Passed())
        for _, _, each in reversed(some[kept:]):
            work.machine.untake(each.offset)
        if not tasks:
            return None
        work.borrowed = True
        return Part(number, work.owned, tasks)

    def _mine(self, part: Part) -> Work | None:
        """Return the work of a part, if the partition is still the one it was borrowed from."""
        work = self._works.get(part.number)
        return work if work is not None and work.owned is part.owned else None

    def _undo(self, unit: Unit, works: dict[int, Work], called: int) -> None:
        """Take all records of a unit back; what was called may have had effects elsewhere."""
        for task in reversed(unit.tasks):
            work = works.get(task.place.partition)
            if work is not None:
                work.machine.untake(task.place.offset)
        for task in unit.tasks[:called]:
            work = works.get(task.place.partition)
            if work is not None:
                work.doubtful.add(task.place.offset)


def _spread(parts: list[Part], count: int) -> list[list[Part]]:
    """Return the parts of so many units, about as many records in each; a part is not divided."""
    units, share = list[list[Part]](), sum(len(part.tasks) for part in parts) / max(1, count)
    size = 0.0
    for part in parts:
        if not units or size >= share:
            units.append([])
            size = 0.0
        units[-1].append(part)
        size += len(part.tasks)
    return units
