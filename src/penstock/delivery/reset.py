"""Moving a group to another place in a topic: back, to receive records again, or forward, to skip some.

One reset is one transaction: the domain is touched, the cursors are locked, entries, letters and lanes changed, notes
deleted; then each cursor is set, in a new epoch, so that no older owner settles anything.

Invariant: the cursor meets records at or above the target again, so no lane has them as entries and no letter holds a
lane for them; records below it are in a lane, or done, dead or skipped. A lane is held exactly as long as a letter
holds it. So each key goes on in order: first its lane, then what the cursor meets.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from penstock.database.contract import Row, Rows
from penstock.database.database import Transaction

from .cursor_state import DoneSet
from .lane import WaitState

_IN_HAND = 100  # records from the target on that come marked, if they were handed out before


@dataclass(frozen=True, slots=True)
class Move:
    """A partition of a reset: how many passed offsets are met again, and how many open ones will not be."""

    partition: int
    from_offset: int
    to_offset: int
    again: int
    skipped: int


class CursorReset:
    """Resets of one group on one topic; `living` and `touch` as for `DeadLetters`."""

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

    def moves(self, tx: Transaction, targets: Mapping[int, int]) -> list[Move]:
        """Return the effect of a reset to these offsets, by partition; changes nothing."""
        rows = tx.rows("delivery", "cursors_places", partitions=sorted(targets), **self._ids)
        return _moves(rows, targets)

    def reset(
        self,
        tx: Transaction,
        targets: Mapping[int, int],
        *,
        drop_parked: bool,
        now_ms: int | None,
        behind: Collection[int] = (),
    ) -> list[Move]:
        """Move the cursors; records that wait in lanes below the targets stay, unless they are dropped.

        `behind`: partitions that took keys over from these when the topic grew: taken again, so that they wait.
        """
        self._touch(tx, self._ids["group_id"], self._ids["topic_id"])
        found = tx.rows("delivery", "cursors_hold", partitions=sorted({*targets, *behind}), **self._ids)
        held = [row for row in found if row[0] in targets]
        if not held:
            return []  # the topic was deleted meanwhile
        moves = _moves(held, targets)
        floors = [0 if drop_parked else each.to_offset for each in moves]
        table = Rows(partition=[each.partition for each in moves], place=floors)
        tx.change("delivery", "entries_reset", floors=table, **self._ids)
        tx.change("delivery", "dead_reset", floors=table, now_ms=now_ms, **self._ids)
        partitions = [each.partition for each in moves]
        tx.change("delivery", "lanes_forget", partitions=partitions, **self._ids)
        tx.change("delivery", "lanes_unhold", partitions=partitions, reason=WaitState.SLOW.text, **self._ids)
        tx.change("delivery", "notes_reset", partitions=partitions, **self._ids)
        targets = {each.partition: each.to_offset for each in moves}
        table = Rows(partition=list(targets), place=list(targets.values()))
        tx.change("delivery", "fallbacks_reset", targets=table, **self._ids)
        self.place(tx, targets)
        if behind:
            living = self._living(tx)
            tx.change("delivery", "cursors_seize", partitions=sorted(behind), living=living, **self._ids)
        return moves

    def place(self, tx: Transaction, targets: Mapping[int, int]) -> None:
        """Set cursors that are locked already, each in a new epoch, with nothing passed above it."""
        living = self._living(tx)  # only now: no owner of a locked row can have joined since
        table = Rows(partition=list(targets), place=list(targets.values()))
        tx.change("delivery", "cursors_reset", targets=table, living=living, in_hand=_IN_HAND, **self._ids)


def _moves(rows: Iterable[Row], targets: Mapping[int, int]) -> list[Move]:
    return [move(row[0], DoneSet.stored(row[1], row[2]), targets[row[0]]) for row in rows]


def move(partition: int, done: DoneSet, target: int) -> Move:
    """Return the move of a cursor with this done set."""
    again = max(0, done.base - target) + done.count - done.count_below(target)
    return Move(partition, done.base, target, again, done.open_below(target))
