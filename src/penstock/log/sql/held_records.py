"""Records of an open transaction: held back, invisible to readers, until they get their offsets.

A topic that places keys may have grown. Then its new map places them: behind the records of the old map, which readers
pass first, and before later records of their keys. Lock order: the producer (held already), topics, heads.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.database.contract import Rows
from penstock.database.database import Transaction
from penstock.model.partition import MURMUR3, partition_of

from ..batches import ALLOWED, FOREIGN_KEYS, LogPlace
from ..contract import Topic
from .heads import raise_by
from .topics import topic_of

_KEYS = 10_000  # read at a time


def release_held(tx: Transaction, producer_id: int) -> Sequence[LogPlace]:
    """Move the held-back records of a producer's transaction into the log; return the grown partitions."""
    counts = tx.rows("log", "pending_counts", producer_id=producer_id)
    if not counts:
        return ()
    if _place_again(tx, producer_id, {row[0] for row in counts}):
        counts = tx.rows("log", "pending_counts", producer_id=producer_id)
    risen = raise_by(tx, counts, lambda: tx.change("log", "pending_move", producer_id=producer_id))
    return [LogPlace(*key) for key in risen]


def allowing_foreign(tx: Transaction, topics: Iterable[int]) -> set[int]:
    """Return those of some topics that accept a key in any partition."""
    asked = sorted(topics)
    rows = tx.rows("log", "topic_configs", topics=asked) if asked else []
    return {topic_id for topic_id, name, value in rows if (name, value) == (FOREIGN_KEYS, ALLOWED)}


def _place_again(tx: Transaction, producer_id: int, topics: Iterable[int]) -> bool:
    """Place keys by the present maps of their topics, locked against growth; return whether some moved."""
    kept = [topic_of(row) for row in tx.rows("log", "pending_topics", topics=sorted(topics))]
    grown = {each.id: each for each in kept if each.partitioner == MURMUR3 and each.generation}
    for id in allowing_foreign(tx, grown):
        del grown[id]
    moved = [_place_keys(tx, producer_id, each) for each in grown.values()]
    return any(moved)


def _place_keys(tx: Transaction, producer_id: int, topic: Topic) -> bool:
    asked: dict[str, Any] = {"producer_id": producer_id, "topic_id": topic.id, "limit": _KEYS}
    moved, rows = False, tx.rows("log", "pending_keys", after=-1, **asked)
    while rows:
        owns = [(seq, partition, partition_of(key, topic.partitions)) for seq, partition, key in rows]
        places = [(seq, own) for seq, partition, own in owns if partition != own]
        if places:
            moved = True
            tx.change("log", "pending_place", producer_id=producer_id, places=Rows.of("seq partition", places))
        rows = tx.rows("log", "pending_keys", after=rows[-1][0], **asked)
    return moved
