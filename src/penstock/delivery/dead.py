"""A person's decisions on dead letters: requeue them, release their keys, or discard them.

One decision is one transaction on one group and topic: the domain is touched, the cursors are locked, the letters are
removed, and lanes and entries written for the removed ones. So a decision that is repeated finds nothing left to
decide. An owner cannot overwrite changed lanes before it has learned of them; its records in flight go on. After an
erasure cursors must be taken again.

Invariant: an offset that was passed as dead is an entry of one lane once its letter is requeued, and of none once it is
discarded; a lane is held exactly as long as a letter holds it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.database.contract import Row, Rows
from penstock.database.database import Transaction
from penstock.errors import InvalidHeaders, Undecodable, shown
from penstock.model.limits import Headers, LimitsSettings, check_headers
from penstock.model.record import RawHeaders
from penstock.wire.kafka.headers import decode_headers, encode_headers

from .cursor_state import DoneSet
from .lane import LANE_COLUMNS, SideLane, WaitState, alone_in

LetterPlace = tuple[int, int]  # partition, offset
_LaneAt = tuple[int, str, bool, bool, int]  # the partition, and the columns of a lane
_LANE_AT = f"partition {LANE_COLUMNS}"


class _RemovedLetter(NamedTuple):
    partition: int
    offset: int
    lane: SideLane
    holding: bool

    @property
    def place(self) -> LetterPlace:
        return self.partition, self.offset

    @property
    def lane_at(self) -> _LaneAt:
        return self.partition, *self.lane


@dataclass(frozen=True, slots=True)
class Decided:
    """How many letters were decided on; how many of them were requeued alone, or will be delivered anyway."""

    count: int = 0
    alone: int = 0
    anyway: int = 0

    def __add__(self, other: "Decided") -> "Decided":
        return Decided(self.count + other.count, self.alone + other.alone, self.anyway + other.anyway)


class HeaderEdit:
    """An edit of headers. Headers that cannot be decoded are replaced by the given ones."""

    def __init__(self, given: RawHeaders, dropped: frozenset[str]) -> None:
        self._given, self._gone = given, dropped | {name for name, _ in given}

    @property
    def names(self) -> list[str]:
        """The names of the changed headers, for the audit, which omits values because they may be secrets."""
        return sorted(self._gone)

    def __call__(self, headers: bytes | None) -> bytes | None:
        try:
            known = decode_headers(headers) if headers else ()
        except Undecodable:  # removing broken headers may be the purpose of the edit
            known = ()
        edited = (*(each for each in known if each[0] not in self._gone), *self._given)
        return encode_headers(edited) if edited else None


def edit_of(given: Headers | None, dropped: Collection[str]) -> HeaderEdit | None:
    """Return the edit; None if it changes nothing. Raises InvalidHeaders."""
    if isinstance(dropped, str) or not all(isinstance(each, str) for each in dropped):
        raise InvalidHeaders(dropped, f"drop_headers={shown(dropped)} must be a list of names")
    pairs = check_headers(given, LimitsSettings.load()) if given else ()
    names = {name for name, _ in pairs}
    both = sorted(names & set(dropped))
    if both:
        raise InvalidHeaders(both[0], "is both set and dropped; give only one of them")
    return HeaderEdit(pairs, frozenset(dropped)) if pairs or dropped else None


class DeadLetters:
    """The dead letters of one group on one topic, for the people who decide on them.

    `living` returns the members that may be at work; `touch` makes the owners look, and locks before all others.
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

    def requeue(
        self, tx: Transaction, places: Collection[LetterPlace], *, last: bool = False, edit: HeaderEdit | None = None
    ) -> Decided:
        """Put records back: at the head of the lane they hold, or else in a lane of their own.

        `last`: each in its own, behind the waiting records of its key. Their entries take over the letters' copies,
        with edited headers: a copy takes precedence over the log.
        """
        cursors = self._hold(tx, places)
        letters = self._letters(tx, "dead_peek", cursors, places)
        waiting, held = self._already(tx, letters), self._held(tx, letters)
        heads, alone = list[_RemovedLetter](), list[_RemovedLetter]()
        for each in letters:
            if each.place in waiting or each.offset not in cursors[each.partition]:
                continue  # it is to be delivered anyway
            if each.holding and each.lane_at in held and not last:
                heads.append(each)
            else:
                alone.append(each._replace(lane=alone_in(each.lane, each.offset)))
        back = heads + alone
        self._enter(tx, back)
        if edit is not None:
            self._edit(tx, back, edit)
        self._letters(tx, "dead_take", cursors, [each.place for each in letters])
        freed = self._free(tx, held, {each.lane_at for each in heads})
        self._put(tx, [(each.lane_at, WaitState.LAST if last else WaitState.REQUEUED) for each in alone])
        changed = {each.partition for each in back} | {lane[0] for lane in freed}
        self._note_changes(tx, changed)
        return Decided(len(letters), len(alone), len(letters) - len(back))

    def skip(self, tx: Transaction, places: Collection[LetterPlace]) -> Decided:
        """Release lanes past the records that hold them; these stay dead letters."""
        return self._let_go(tx, places, "dead_skip")

    def discard(self, tx: Transaction, places: Collection[LetterPlace]) -> Decided:
        """Discard records; a lane that one of them held goes on with its later records."""
        return self._let_go(tx, places, "dead_take")

    def erase(self, tx: Transaction, places: Collection[LetterPlace]) -> Decided:
        """Forget records whose content is erased: letters, waiting entries and fallbacks, and their errors.

        Later records of their lanes go on; an empty lane vanishes, and its name with it. An owner that has one of the
        records in memory takes the partition again.
        """
        cursors = self._hold(tx, places)
        letters = self._letters(tx, "dead_take", cursors, places)
        entries = self._entries(tx, cursors, places)
        if cursors:
            table = Rows.of("partition place", sorted(places))
            tx.change("delivery", "fallbacks_drop", places=table, **self._ids)
        held = self._held(tx, letters)
        freed = self._free(tx, held, set())
        self._put(tx, [(lane, WaitState.HELD) for lane in sorted(held - freed)])
        self._behead(tx, entries, freed)
        changed = {each.partition for each in letters} | {each.partition for each in entries}
        unread = {at for at, offset in places if at in cursors and offset not in cursors[at]}
        self._seize(tx, changed | unread)
        return Decided(len(letters), len(entries))

    def _let_go(self, tx: Transaction, places: Collection[LetterPlace], name: str) -> Decided:
        letters = self._letters(tx, name, self._hold(tx, places), places)
        freed = self._free(tx, self._held(tx, letters), set())
        self._note_changes(tx, {lane[0] for lane in freed})
        return Decided(len(letters))

    def _entries(
        self, tx: Transaction, cursors: Collection[int], places: Iterable[LetterPlace]
    ) -> list[_RemovedLetter]:
        rows = sorted(place for place in places if place[0] in cursors)
        if not rows:
            return []
        table = Rows.of("partition place", rows)
        found = tx.rows("delivery", "entries_take", entries=table, **self._ids)
        return sorted(_RemovedLetter(at, offset, SideLane(*lane), False) for at, offset, *lane in found)

    def _behead(self, tx: Transaction, entries: Sequence[_RemovedLetter], freed: Collection[_LaneAt]) -> None:
        """Release lanes that lost their head, but for held and moved ones; drop those that lost all records."""
        firsts: dict[_LaneAt, int] = {}
        for each in entries:
            firsts.setdefault(each.lane_at, each.offset)
        lanes = sorted(firsts.keys() - freed)
        lanes = sorted(set(lanes) - self._lanes(tx, "lanes_held", lanes))
        if not lanes:
            return
        rows = tx.rows("delivery", "entries_heads", lanes=Rows.of(_LANE_AT, lanes), **self._ids)
        heads = {_lane_at(row): row[5] for row in rows}
        moved = self._lanes(tx, "lanes_moved", lanes)
        flowing = [lane for lane in lanes if lane not in moved and firsts[lane] < heads.get(lane, -1)]
        self._put(tx, [(lane, WaitState.SLOW) for lane in flowing])
        empty = [lane for lane in lanes if lane not in heads]
        if empty:
            tx.change("delivery", "lanes_drop", lanes=Rows.of(_LANE_AT, empty), **self._ids)

    # -- under the cursors' locks

    def _hold(self, tx: Transaction, places: Iterable[LetterPlace]) -> dict[int, DoneSet]:
        self._touch(tx, self._ids["group_id"], self._ids["topic_id"])
        partitions = sorted({partition for partition, _ in places})
        rows = tx.rows("delivery", "cursors_hold", partitions=partitions, **self._ids)
        return {partition: DoneSet.stored(offset, passed) for partition, offset, passed in rows}

    def _letters(
        self, tx: Transaction, name: str, cursors: Collection[int], places: Iterable[LetterPlace]
    ) -> list[_RemovedLetter]:
        rows = sorted(place for place in places if place[0] in cursors)
        if not rows:
            return []  # the topic was deleted meanwhile
        table = Rows.of("partition place", rows)
        found = tx.rows("delivery", name, letters=table, **self._ids)
        return sorted(
            _RemovedLetter(partition, offset, SideLane(*lane), bool(hold)) for partition, offset, *lane, hold in found
        )

    def _already(self, tx: Transaction, letters: Sequence[_RemovedLetter]) -> set[LetterPlace]:
        if not letters:
            return set()
        table = Rows.of("partition place", [each.place for each in letters])
        return {(row[0], row[1]) for row in tx.rows("delivery", "entries_find", entries=table, **self._ids)}

    def _held(self, tx: Transaction, letters: Sequence[_RemovedLetter]) -> set[_LaneAt]:
        lanes = sorted({each.lane_at for each in letters if each.holding})
        return self._lanes(tx, "lanes_held", lanes)

    def _enter(self, tx: Transaction, letters: Sequence[_RemovedLetter]) -> None:
        if letters:
            names = f"partition place {LANE_COLUMNS}"
            table = Rows.of(names, [(*each.place, *each.lane) for each in letters])
            tx.change("delivery", "entries_return", entries=table, **self._ids)

    def _edit(self, tx: Transaction, letters: Sequence[_RemovedLetter], edit: HeaderEdit) -> None:
        if not letters:
            return
        table = Rows.of("partition place", [each.place for each in letters])
        for partition, offset, headers in tx.rows("delivery", "dead_headers", letters=table, **self._ids):
            place = {"partition": partition, "offset": offset}
            tx.change("delivery", "entry_headers", headers=edit(headers), **place, **self._ids)

    def _free(self, tx: Transaction, held: set[_LaneAt], headed: Collection[_LaneAt]) -> set[_LaneAt]:
        """Release held lanes, except those that another letter holds; a lane without records vanishes."""
        freed = held - self._lanes(tx, "dead_holding", sorted(held))
        left = self._lanes(tx, "entries_count", sorted(freed))
        self._put(tx, [(lane, WaitState.REQUEUED if lane in headed else WaitState.SLOW) for lane in sorted(left)])
        empty = sorted(freed - left)
        if empty:
            tx.change("delivery", "lanes_drop", lanes=Rows.of(_LANE_AT, empty), **self._ids)
        return freed

    def _lanes(self, tx: Transaction, name: str, lanes: Sequence[_LaneAt]) -> set[_LaneAt]:
        if not lanes:
            return set()
        rows = tx.rows("delivery", name, lanes=Rows.of(_LANE_AT, lanes), **self._ids)
        return {_lane_at(row) for row in rows}

    def _put(self, tx: Transaction, lanes: Iterable[tuple[_LaneAt, WaitState]]) -> None:
        rows = [(*lane, state.value, 0, 0, state.text, 0) for lane, state in lanes]
        if rows:
            table = Rows.of(f"{_LANE_AT} state failures due_ms reason wait_ms", rows)
            tx.change("delivery", "lanes_put", lanes=table, **self._ids)

    def _note_changes(self, tx: Transaction, partitions: Iterable[int]) -> None:
        changed = sorted(partitions)
        if changed:
            tx.change("delivery", "cursors_lanes_changed", partitions=changed, **self._ids)

    def _seize(self, tx: Transaction, partitions: Iterable[int]) -> None:
        seized = sorted(partitions)
        if seized:
            living = self._living(tx)  # only now: no owner of a locked row can have joined since
            tx.change("delivery", "cursors_seize", partitions=seized, living=living, **self._ids)


def _lane_at(row: Row) -> _LaneAt:
    partition, lane, whole, late, alone = row[:5]
    return partition, lane, bool(whole), bool(late), alone
