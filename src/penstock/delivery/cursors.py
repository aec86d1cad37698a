"""Cursors: where a group is in each partition, and the settling of what it has handled.

A cursor is moved by its owner only, in its epoch, and only from the place it was believed to be: so a
late, stale or repeated settling changes nothing and says so.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock import points
from penstock.clock import Clock, own_ms
from penstock.errors import Fenced
from penstock.log.contract import Topic
from penstock.log.sql.database import Database, Transaction

BEFORE_SETTLE = points.declare("delivery.before_settle", "Records are handled; the cursor has not moved.")
AFTER_SETTLE = points.declare("delivery.after_settle", "The cursor has moved and is committed.")


@dataclass(slots=True)
class Cursor:
    """One owned place: a group in a partition."""

    group_id: int
    topic: Topic
    partition: int
    offset: int
    epoch: int


class Cursors:
    """The cursors of one group on one topic, as one member sees them."""

    def __init__(self, database: Database, clock: Clock, *, group: str, topic: Topic, owner: str) -> None:
        self._database, self._clock = database, clock
        self._topic, self._owner = topic, owner
        self._group_id = database.run(lambda tx: self._join(tx, group))

    def behind(self) -> bool:
        """Return whether there may be something to deliver, or a cursor still to be made."""
        params = {"group_id": self._group_id, "topic_id": self._topic.id}
        return bool(self._database.look(lambda tx: tx.rows("delivery", "cursors_behind", **params))[0][0])

    def take(self, living: Callable[[Transaction], list[str]], *, from_start: bool) -> list[Cursor]:
        """Own every cursor that is behind and that no living member owns, making those that are new.

        `living` is asked under the group's lock: a member that has taken before us is then on its list.
        """
        return self._database.run(lambda tx: self._take(tx, living, from_start))

    def settle(self, cursor: Cursor, offset: int) -> None:
        """Move a cursor forward. Raises Fenced when it is no longer ours, or not where we left it."""
        points.reach(BEFORE_SETTLE)
        moved = self._database.run(
            lambda tx: tx.change(
                "delivery",
                "cursor_settle",
                group_id=self._group_id,
                topic_id=self._topic.id,
                partition=cursor.partition,
                owner=self._owner,
                epoch=cursor.epoch,
                previous=cursor.offset,
                offset=offset,
            )
        )
        if not moved:
            raise Fenced(cursor.partition, cursor.epoch)
        cursor.offset = offset
        points.reach(AFTER_SETTLE)

    def release(self) -> None:
        """Give the cursors back."""
        params = {"group_id": self._group_id, "topic_id": self._topic.id, "owner": self._owner}
        self._database.run(lambda tx: tx.change("delivery", "cursors_release", **params))

    def _join(self, tx: Transaction, group: str) -> int:
        tx.change("delivery", "group_create", name=group, now_ms=own_ms(self._clock))
        return int(tx.rows("delivery", "group_find", name=group)[0][0])

    def _take(
        self, tx: Transaction, living: Callable[[Transaction], list[str]], from_start: bool
    ) -> list[Cursor]:
        params = {"group_id": self._group_id, "topic_id": self._topic.id}
        tx.rows("delivery", "group_lock", group_id=self._group_id)
        tx.change("delivery", "cursors_create", from_start=from_start, **params)
        rows = tx.rows("delivery", "cursors_take", owner=self._owner, living=living(tx), **params)
        return [Cursor(self._group_id, self._topic, *row) for row in sorted(rows)]
