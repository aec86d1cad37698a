"""Sequencers with a known flaw each, planted so that the account is seen to find it.

Each is the real one but for the rule its name says it breaks.
"""

from __future__ import annotations

from typing import Any

from penstock import points
from penstock.database.contract import Rows
from penstock.database.database import Transaction
from penstock.log.sql.append import COLUMNS
from penstock.log.sql.heads import Fence, HeadKey, Numbering
from penstock.log.sql.topics import ensure_topics
from penstock.model.partition import partition
from penstock.outbox.move import Pick, Picked
from penstock.outbox.sequencer import AFTER_PICK, BEFORE_COMMIT, Pass, Sequencer

_VALUES = (
    "SELECT seq, slot, topic, key_hash, timestamp_ms, id, key, type, value, headers, timestamp_ms, owner "
    "FROM penstock_staged WHERE seq = ANY(%s) ORDER BY seq"
)
_REMOVE = "DELETE FROM penstock_staged WHERE seq = ANY(%s)"


class StepByStep(Sequencer):
    """The real one, but for the move in one trip: the flaws are in the steps."""

    def _goes_at_once(self) -> bool:
        return False


class CursorOnStagedIds(StepByStep):
    """Remembers the highest number it has seen and looks only above it."""

    _seen = 0

    def _pick(self, tx: Transaction, slots: list[int]) -> list[Pick]:
        picks = [_above(pick, self._seen) for pick in super()._pick(tx, slots)]
        self._seen = max([self._seen, *(row.seq for pick in picks for row in pick.rows)])
        return picks


class RememberedFloor(StepByStep):
    """Looks above a remembered floor, and sweeps what is below it only when nothing is above."""

    _floor = 0

    def _pick(self, tx: Transaction, slots: list[int]) -> list[Pick]:
        everything = super()._pick(tx, slots)
        above = [_above(pick, self._floor) for pick in everything]
        self._floor = max([self._floor, *(row.seq for pick in above for row in pick.rows)])
        return above if any(pick.rows for pick in above) else everything


class InsertFedFromThePick(StepByStep):
    """Locks and picks as it should, then inserts what it picked, whether or not that is still there."""

    def _move(self, tx: Transaction, fence: Fence, slots: list[int]) -> Pass:
        rows = _values(tx, self._pick(tx, slots))
        points.reach(AFTER_PICK)
        return _insert(tx, rows)


class PickBeforeTheLock(StepByStep):
    """Picks on a snapshot from before the lock, as one statement that waits inside itself does."""

    def _fenced(self, fence: Fence, slots: list[int]) -> Pass:
        def move(tx: Transaction) -> Pass:
            rows = _values(tx, self._pick(tx, slots))
            points.reach(AFTER_PICK)
            fence.lock(tx, slots)
            return _insert(tx, rows)

        return self._database.run(move)


def _above(pick: Pick, seq: int) -> Pick:
    return Pick(pick.table, [row for row in pick.rows if row.seq > seq])


def _values(tx: Transaction, picks: list[Pick]) -> list[tuple[Any, ...]]:
    """Read all columns of the picked staged rows."""
    seqs = [row.seq for pick in picks for row in pick.rows]
    return [tuple(row) for row in tx.conn.execute(_VALUES, (seqs,)).fetchall()]


def _insert(tx: Transaction, rows: list[tuple[Any, ...]]) -> Pass:
    """Number and insert the rows as they were read, then remove them without counting."""
    picks = [Picked(*row[:5]) for row in rows]
    topics = ensure_topics(tx, {row.topic for row in picks}, None)
    heads = [HeadKey(topics[row.topic].id, partition(row.key_hash, topics[row.topic].partitions)) for row in picks]
    numbering = Numbering(tx, heads)
    numbered = [(*head, numbering.give(head, row[4]), *row[5:]) for head, row in zip(heads, rows, strict=True)]
    if numbered:
        tx.bulk("log", "append", Rows.of(f"topic_id partition place {COLUMNS}", numbered))
        numbering.finish()
    tx.conn.execute(_REMOVE, ([row[0] for row in rows],))
    points.reach(BEFORE_COMMIT)
    return Pass(len(rows), 0, False)
