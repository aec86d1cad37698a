"""The move: picked rows leave their table and enter the log, in one transaction, under locks held already.

Two ways, the same result. Where a DELETE can feed an INSERT, one statement numbers and inserts only what
the delete returned. Elsewhere: insert by ids, delete by ids, and if another transaction has taken one of
them meanwhile the counts differ and all is rolled back. Inserting from the pick without either check would
put a cancelled event into the log, and a retried move would put every event there twice.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.errors import PickChanged
from penstock.log.contract import Topic
from penstock.log.sql.contract import Rows
from penstock.log.sql.database import Call, Transaction
from penstock.log.sql.heads import (
    HeadKey,
    Numbering,
    Raised,
    ensure_topics,
    lock_heads,
    locked,
    locking,
    mark_times,
)
from penstock.model.partition import partition


class Picked(NamedTuple):
    """One row to move, as the pick statements give it; within a key in the order to be kept."""

    seq: int
    slot: int
    topic: str
    key_hash: int
    timestamp_ms: int


class Pick(NamedTuple):
    """Rows of one table, `scheduled` or `staged`, in order."""

    table: str
    rows: Sequence[Picked]


def move(
    tx: Transaction,
    picks: Sequence[Pick],
    topics: dict[str, Topic],
    *,
    in_one_statement: bool,
    now_ms: int | None,
) -> list[Raised]:
    """Move the picks, in their order, and return how far their rows have raised the heads, in turn.

    `topics` are kept by this transaction already; those that are missing are made.
    """
    names = {row.topic for pick in picks for row in pick.rows}
    if not names <= topics.keys():
        topics = ensure_topics(tx, names, now_ms)
    heads = sorted({_head(topics, row) for pick in picks for row in pick.rows})
    picks = [pick for pick in picks if pick.rows]
    if in_one_statement:
        return _move_in_one(tx, picks, topics, heads)
    lock_heads(tx, heads)
    return [raised for pick in picks for raised in _move_by_ids(tx, pick, topics)]


def _head(topics: dict[str, Topic], row: Picked) -> HeadKey:
    topic = topics[row.topic]
    return HeadKey(topic.id, partition(row.key_hash, topic.partitions))


def _move_in_one(
    tx: Transaction, picks: Sequence[Pick], topics: dict[str, Topic], heads: Sequence[HeadKey]
) -> list[Raised]:
    """Lock the heads and move, in one trip; a head that is missing undoes it all."""
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
    return Call("outbox", f"move_{pick.table}", {"ids": ids, "topics": topics})


def _move_by_ids(tx: Transaction, pick: Pick, topics: dict[str, Topic]) -> list[Raised]:
    keys = [_head(topics, row) for row in pick.rows]
    numbering = Numbering(tx, keys)
    seqs = [row.seq for row in pick.rows]
    places = Rows(
        seq=seqs,
        topic_id=[key.topic_id for key in keys],
        partition=[key.partition for key in keys],
        place=[numbering.give(key, row.timestamp_ms) for key, row in zip(keys, pick.rows, strict=True)],
    )
    inserted = tx.change("outbox", f"insert_{pick.table}", places=places)
    deleted = tx.change("outbox", f"delete_{pick.table}", seqs=seqs)
    if not inserted == deleted == len(seqs):
        raise PickChanged(len(seqs), deleted)
    return numbering.finish()


def picked(rows: Iterable[tuple[int, int, str, int, int]]) -> list[Picked]:
    """Return the rows of a pick statement."""
    return [Picked._make(row) for row in rows]
