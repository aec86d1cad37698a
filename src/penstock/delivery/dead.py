"""What a person decides on dead letters: put them back, or let them go.

One decision is one transaction on one group and topic, in this order: the domain is touched, the cursors are
locked, the letters are removed, and lanes and entries are written by what was removed. So a decision that is
repeated or in doubt finds nothing left to decide. The cursors whose lanes changed are to be taken afresh:
their epoch rises, so that an owner with an older view cannot write over it.

Invariant: an offset that was passed as dead is an entry of one lane once its letter is requeued, and of none
once it is discarded; a lane is held exactly as long as a letter holds it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.log.sql.contract import Row, Rows
from penstock.log.sql.database import Transaction

from .machine import SLOW, StoredLane, alone_key

REQUEUED = "requeued"  # the reason of a lane whose head a person has put back

Place = tuple[int, int]  # partition, offset
_LaneAt = tuple[int, str]  # partition, stored name


class _Letter(NamedTuple):
    """A letter that was removed."""

    partition: int
    offset: int
    lane: str
    holding: bool

    @property
    def place(self) -> Place:
        return self.partition, self.offset

    @property
    def lane_at(self) -> _LaneAt:
        return self.partition, self.lane


class _Cursor(NamedTuple):
    base: int
    passed: bytes
    trying: int | None

    def is_passed(self, offset: int) -> bool:
        """Return whether delivery has passed an offset; else it is still to be read from the log."""
        byte, bit = divmod(offset - self.base, 8)
        return offset < self.base or (byte < len(self.passed) and bool(self.passed[byte] >> bit & 1))


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of some letters: removed, of these put back alone, kept since the log lost the record."""

    count: int = 0
    alone: int = 0
    gone: int = 0

    def __add__(self, other: "Decided") -> "Decided":
        return Decided(self.count + other.count, self.alone + other.alone, self.gone + other.gone)


class DeadLetters:
    """The dead letters of one group on one topic, for those who decide on them.

    `living` tells the members that may still be at work; `touch` makes the owners look, and comes before all
    other locks.
    """

    def __init__(
        self,
        group_id: int,
        topic_id: int,
        *,
        living: Callable[[Transaction], list[str]],
        touch: Callable[[Transaction, int, int], object],
    ) -> None:
        self._ids = {"group_id": group_id, "topic_id": topic_id}
        self._living, self._touch = living, touch

    def requeue(self, tx: Transaction, places: Collection[Place]) -> Decided:
        """Put records back: at the head of the lane they hold, else in a lane of their own.

        One that the log no longer holds stays a dead letter: it could not be delivered.
        """
        cursors = self._hold(tx, places)
        letters = self._remove(tx, cursors, places, logged=True)
        kept = self._gone(tx, set(places) - {each.place for each in letters}) if cursors else 0
        waiting, held = self._already(tx, letters), self._held(tx, letters)
        heads, alone = list[_Letter](), list[_Letter]()
        for each in letters:
            if each.place in waiting or not cursors[each.partition].is_passed(each.offset):
                continue  # it is to be delivered anyway
            if each.holding and each.lane_at in held:
                heads.append(each)
            else:
                alone.append(each._replace(lane=alone_key(each.lane, each.offset)))
        back = heads + alone
        self._enter(tx, back)
        freed = self._free(tx, held, {each.lane_at for each in heads})
        self._put(tx, [(*each.lane_at, REQUEUED) for each in alone])
        changed = {each.partition for each in back} | {partition for partition, _ in freed}
        self._seize(tx, changed, cursors, {each.place for each in letters})
        return Decided(len(letters), len(alone), kept)

    def discard(self, tx: Transaction, places: Collection[Place]) -> Decided:
        """Let records go; a lane that one of them held goes on with its later records."""
        cursors = self._hold(tx, places)
        letters = self._remove(tx, cursors, places, logged=False)
        freed = self._free(tx, self._held(tx, letters), set())
        self._seize(tx, {partition for partition, _ in freed}, cursors, set())
        return Decided(len(letters))

    # -- under the cursors' locks

    def _hold(self, tx: Transaction, places: Iterable[Place]) -> dict[int, _Cursor]:
        self._touch(tx, self._ids["group_id"], self._ids["topic_id"])
        partitions = sorted({partition for partition, _ in places})
        rows = tx.rows("delivery", "cursors_hold", partitions=partitions, **self._ids)
        return {row[0]: _Cursor(row[1], bytes.fromhex(row[2]), row[3]) for row in rows}

    def _remove(
        self, tx: Transaction, cursors: Collection[int], places: Iterable[Place], *, logged: bool
    ) -> list[_Letter]:
        rows = sorted(place for place in places if place[0] in cursors)
        if not rows:
            return []  # the topic was deleted meanwhile
        table = _table("partitions offsets", rows)
        taken = tx.rows("delivery", "dead_take", letters=table, logged=logged, **self._ids)
        return sorted(_Letter(partition, offset, lane, bool(hold)) for partition, offset, lane, hold in taken)

    def _gone(self, tx: Transaction, places: Iterable[Place]) -> int:
        """Return how many of some letters are still there: the log has lost their records."""
        found = (
            tx.rows("delivery", "dead_find", partition=partition, offset=offset, **self._ids)
            for partition, offset in places
        )
        return sum(map(len, found))

    def _already(self, tx: Transaction, letters: Sequence[_Letter]) -> set[Place]:
        """Return which of the records wait in a lane already, as after a reset of the group."""
        if not letters:
            return set()
        table = _table("partitions offsets", [each.place for each in letters])
        return {(row[0], row[1]) for row in tx.rows("delivery", "entries_find", entries=table, **self._ids)}

    def _held(self, tx: Transaction, letters: Sequence[_Letter]) -> set[_LaneAt]:
        """Return the lanes that the letters have held."""
        lanes = sorted({each.lane_at for each in letters if each.holding})
        return self._lanes(tx, "lanes_held", lanes)

    def _enter(self, tx: Transaction, letters: Sequence[_Letter]) -> None:
        """Let records wait in their lanes again."""
        if letters:
            table = _table("partitions offsets lanes", [(*each.place, each.lane) for each in letters])
            tx.change("delivery", "entries_put", entries=table, **self._ids)

    def _free(self, tx: Transaction, held: set[_LaneAt], headed: Collection[_LaneAt]) -> set[_LaneAt]:
        """Let held lanes go on, but for those that another letter holds; one without records vanishes."""
        freed = held - self._lanes(tx, "dead_holding", sorted(held))
        left = self._lanes(tx, "entries_count", sorted(freed))
        self._put(tx, [(*lane, REQUEUED if lane in headed else SLOW) for lane in sorted(left)])
        empty = sorted(freed - left)
        if empty:
            tx.change("delivery", "lanes_drop", lanes=_table("partitions lanes", empty), **self._ids)
        return freed

    def _lanes(self, tx: Transaction, name: str, lanes: Sequence[_LaneAt]) -> set[_LaneAt]:
        """Return which of some lanes a statement finds."""
        if not lanes:
            return set()
        rows = tx.rows("delivery", name, lanes=_table("partitions lanes", lanes), **self._ids)
        return {(row[0], row[1]) for row in rows}

    def _put(self, tx: Transaction, lanes: Iterable[tuple[int, str, str]]) -> None:
        """Write down lanes that may go on at once, each with its reason."""
        rows = [(at, *StoredLane(lane, False, 0, 0, reason)) for at, lane, reason in lanes]
        if rows:
            table = _table("partitions lanes held failures due_ms reasons", rows)
            tx.change("delivery", "lanes_put", lanes=table, **self._ids)

    def _seize(
        self,
        tx: Transaction,
        partitions: Iterable[int],
        cursors: dict[int, _Cursor],
        requeued: Collection[Place],
    ) -> None:
        """Have partitions taken afresh; a record that had killed its workers may be tried again."""
        rows = [(each, (each, cursors[each].trying) in requeued) for each in sorted(partitions)]
        if rows:
            seized = _table("partitions anew", rows)
            living = self._living(tx)  # only now: no owner of a locked row can have joined since
            tx.change("delivery", "cursors_seize", seized=seized, living=living, **self._ids)


def _table(columns: str, rows: Iterable[Row] | Iterable[tuple[Any, ...]]) -> Rows:
    values = zip(*rows, strict=True)
    return Rows(**{column: list(each) for column, each in zip(columns.split(), values, strict=True)})
