"""The move: picked rows leave their table and enter the log of the same database, under locks already held.

Two ways, one result. Where a DELETE can feed an INSERT, one statement numbers and inserts only the deleted rows; it
supports our own partitioner only. Elsewhere: insert by ids, delete by ids, and if another transaction has taken one of
them meanwhile the counts differ and everything is rolled back. An insert from the pick without either check would put a
cancelled event into the log, and a retried move would put every event there twice.

For a few rows, as in a trickle, round trips dominate the cost. So if the dialect can, `move_whole` sends fence, pick,
move and commit together. Rows that it cannot move, because others are due before them or their topic does not exist
yet, are left to `move`; so is a backlog.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from penstock.clock import Clock, own_ms
from penstock.database.contract import Call, Rows
from penstock.database.database import Database, Transaction
from penstock.errors import PickChanged
from penstock.log.contract import Topic
from penstock.log.entry import Entry
from penstock.log.sql.heads import (
    MARK_EVERY,
    Fence,
    HeadKey,
    Numbering,
    Raised,
    lock_heads,
    locked,
    locking,
    mark_times,
)
from penstock.log.sql.topics import ensure_topics
from penstock.model.partition import MURMUR3, partition, partition_for


class Picked(NamedTuple):
    """One row to move, from a pick statement; rows of a key are in the order to keep."""

    seq: int
    slot: int
    topic: str
    key_hash: int
    timestamp_ms: int


class Pick(NamedTuple):
    """Rows of one table, `scheduled` or `staged`, in order."""

    table: str
    rows: Sequence[Picked]

    @property
    def ids(self) -> dict[str, Any]:
        """The parameters that identify its rows in a statement."""
        return {"slots": sorted({row.slot for row in self.rows}), "seqs": [row.seq for row in self.rows]}


def move(
    tx: Transaction, picks: Sequence[Pick], topics: dict[str, Topic], *, in_one_statement: bool, now_ms: int | None
) -> list[Raised]:
    """Move the picks, in their order; return the growth of the heads. `topics` are locked; missing ones are created."""
    names = {row.topic for pick in picks for row in pick.rows}
    if not names <= topics.keys():
        topics = ensure_topics(tx, names, now_ms)
    picks = [pick for pick in picks if pick.rows]
    foreign = {name for name in names if topics[name].partitioner != MURMUR3}
    if in_one_statement and not foreign:
        heads = sorted({_head(topics, row) for pick in picks for row in pick.rows})
        return _move_in_one(tx, picks, topics, heads)
    places = [_places(tx, pick, topics, foreign) for pick in picks]
    lock_heads(tx, {head for each in places for head in each})
    return [raised for pick, heads in zip(picks, places, strict=True) for raised in _move_by_ids(tx, pick, heads)]


def _head(topics: dict[str, Topic], row: Picked) -> HeadKey:
    topic = topics[row.topic]
    return HeadKey(topic.id, partition(row.key_hash, topic.partitions))


def _places(tx: Transaction, pick: Pick, topics: dict[str, Topic], foreign: set[str]) -> list[HeadKey]:
    """Return the head of each row; a foreign partitioner places it by the key itself."""
    strange = Pick(pick.table, [row for row in pick.rows if row.topic in foreign])
    keys = {}
    if strange.rows:
        keys = {seq: (key, id) for seq, key, id in tx.rows("outbox", f"keys_{pick.table}", **strange.ids)}
    heads = []
    for row in pick.rows:
        if row.topic in foreign and row.seq in keys:
            topic = topics[row.topic]
            number = partition_for(topic.partitioner, *keys[row.seq], topic.partitions)
            heads.append(HeadKey(topic.id, number))
        else:
            heads.append(_head(topics, row))
    return heads


def _move_in_one(tx: Transaction, picks: list[Pick], topics: dict[str, Topic], heads: list[HeadKey]) -> list[Raised]:
    """Lock the heads and move, in one round trip; a missing head rolls everything back."""
    named = Rows(
        name=list(topics),
        id=[topic.id for topic in topics.values()],
        partitions=[topic.partitions for topic in topics.values()],
    )
    first, *moved = tx.execute_all([locking(heads), *(_moving(pick, named) for pick in picks)])
    locked(heads, first.rows)
    raised = [Raised(*row) for result in moved for row in result.rows]
    mark_times(tx, raised)
    return raised


def _moving(pick: Pick, topics: Rows) -> Call:
    ids = Rows(slot=[row.slot for row in pick.rows], seq=[row.seq for row in pick.rows])
    return Call("log", f"move_{pick.table}", {"ids": ids, "topics": topics})


def _move_by_ids(tx: Transaction, pick: Pick, heads: Sequence[HeadKey]) -> list[Raised]:
    numbering = Numbering(tx, heads)
    rows = [
        (row.slot, row.seq, *head, numbering.give(head, row.timestamp_ms))
        for head, row in zip(heads, pick.rows, strict=True)
    ]
    inserted = tx.change("log", f"insert_{pick.table}", places=Rows.of("slot seq topic_id partition place", rows))
    deleted = tx.change("outbox", f"delete_{pick.table}", **pick.ids)
    if not inserted == deleted == len(pick.rows):
        raise PickChanged(len(pick.rows), deleted)
    return numbering.finish()


def picked(rows: Iterable[tuple[int, int, str, int, int]]) -> list[Picked]:
    """Return the rows of a pick statement."""
    return [Picked._make(row) for row in rows]


MOST_RECORDS = 200  # per round trip


class Moved(NamedTuple):
    """The result of one round trip."""

    fenced: int  # slots that turned out to have another owner
    moved: int
    picked: int  # if larger than `moved`: the others have no topic yet, or another transaction took them
    is_due: bool  # scheduled rows are due, so nothing was picked
    ends: dict[HeadKey, int]  # the new ends of the partitions it added to
    entries: list[tuple[int, Entry]]  # the moved records with their topic ids; empty if too many bytes


def move_whole(
    database: Database, clock: Clock, fence: Fence, slots: Sequence[int], *, limit: int, hand_over: int
) -> Moved:
    """Move the staged rows of some slots; return the records too, if they have at most `hand_over` bytes.

    After StoreUnreachable the outcome is in doubt. A retry is safe: moved rows are no longer staged.
    """
    lock = fence.locking(slots, waiting=True)
    bounds = {"per_slot": limit + 1, "limit": limit, "mark_every": MARK_EVERY, "hand_over": hand_over}
    params = lock.params | bounds | {"now_ms": own_ms(clock), "partitioner": MURMUR3}
    first, second = database.run_whole([lock, Call("log", "move_at_once", params)])
    counts, *rest = second.rows
    ends = dict[HeadKey, int]()
    for topic_id, number, offset, *_ in rest:
        head = HeadKey(topic_id, number)
        ends[head] = max(offset + 1, ends.get(head, 0))
    entries = [(row[0], Entry(*row[1:])) for row in rest if row[3] is not None]
    ((fenced, _),) = first.rows
    return Moved(fenced, counts[0], counts[1], bool(counts[2]), ends, entries)
