"""Appends batches, all or none: offsets are assigned under the locks of the partitions' heads.

A producer's batch is added once: its last one is locked before the heads, compared, and updated in the transaction.
"""

from collections.abc import Sequence
from operator import itemgetter

import msgspec

from penstock.database.contract import Row, Rows
from penstock.database.database import Transaction
from penstock.errors import UnknownTopic
from penstock.model.limits import check_topic
from penstock.model.partition import partition_for

from ..contract import Appended, Batch, Position, Topic, check_partition, is_repeated
from ..entry import Content
from .heads import HeadKey, Numbering
from .topics import keep_topics

COLUMNS = "id key type value headers timestamp_ms owner"  # the columns of a record
PRODUCER_COLUMNS = "id epoch sequence topic_id positions ids"
_positions = msgspec.json.Decoder(list[tuple[int, int]]).decode
_ids = msgspec.json.Decoder(tuple[str, ...]).decode
_place = itemgetter(0, 1, 2)


def append_all(tx: Transaction, batches: Sequence[Batch]) -> list[list[Position]]:
    """Add batches and return the positions of their records."""
    for batch in batches:
        check_topic(batch.topic)
    topics = keep_topics(tx, [batch.topic for batch in batches])
    known = _last_batches(tx, batches)
    heads_of = [_heads_of(batch, topics, known) for batch in batches]
    numbering = Numbering(tx, [head for heads in heads_of for head in heads])
    rows, given = list[Row](), list[list[Position]]()
    for batch, heads in zip(batches, heads_of, strict=True):
        if batch.producer is not None and not heads and batch.contents:
            given.append(list(known[batch.producer.id].positions))
            continue
        offsets = [numbering.give(head, each.timestamp_ms) for head, each in zip(heads, batch.contents, strict=True)]
        for head, offset, content in zip(heads, offsets, batch.contents, strict=True):
            rows.append((*head, offset, *columns(content)))
        given.append([Position(head.partition, offset) for head, offset in zip(heads, offsets, strict=True)])
    if rows:
        # Grouped by partition, as in a move: so a read of one partition fetches few pages of others.
        rows.sort(key=_place)
        tx.bulk("log", "append", Rows.of(f"topic_id partition place {COLUMNS}", rows))
        numbering.finish()
    noted = [
        (*batch.producer, topics[batch.topic].id, as_json(positions), as_json([one.id for one in batch.contents]))
        for batch, heads, positions in zip(batches, heads_of, given, strict=True)
        if batch.producer is not None and heads
    ]
    if noted:
        tx.change("log", "producers_put", producers=Rows.of(PRODUCER_COLUMNS, noted))
    return given


def columns(content: Content) -> tuple[object, ...]:
    """Return the values of a record's row, in the order of COLUMNS; a missing type is stored as ''."""
    id, key, type, value, headers, timestamp_ms, owner = content
    return id, key, type or "", value, headers, timestamp_ms, owner


def last_batch(tx: Transaction, producer: str) -> Appended | None:
    """Return the last batch of a producer."""
    rows = tx.rows("log", "producer_find", id=producer)
    return _appended(rows[0]) if rows else None


def _appended(row: Row) -> Appended:
    epoch, sequence, topic_id, positions, ids = row
    places = tuple(Position(*each) for each in _positions(positions))
    return Appended(epoch, sequence, topic_id, places, _ids(ids))


def _last_batches(tx: Transaction, batches: Sequence[Batch]) -> dict[str, Appended]:
    """Lock the producers of some batches, including new ones, and return the last batch of each."""
    ids = sorted({batch.producer.id for batch in batches if batch.producer is not None and batch.contents})
    known = _locked(tx, ids) if ids else {}
    new = [(id, -1, 0, 0, "[]", "[]") for id in ids if id not in known]
    if new and tx.change("log", "producers_claim", producers=Rows.of(PRODUCER_COLUMNS, new)) < len(new):
        known = {id: each for id, each in _locked(tx, ids).items() if each.epoch >= 0}
    return known


def _locked(tx: Transaction, ids: list[str]) -> dict[str, Appended]:
    return {row[0]: _appended(row[1:]) for row in tx.rows("log", "producers_lock", ids=ids)}


def _heads_of(batch: Batch, topics: dict[str, Topic], known: dict[str, Appended]) -> list[HeadKey]:
    """Return the head of each record of a batch; none if it was added before."""
    topic = topics.get(batch.topic)
    if topic is None:
        raise UnknownTopic(batch.topic)
    if batch.partition is not None:
        check_partition(topic, batch.partition)
    if batch.producer is not None and is_repeated(batch.producer, known.get(batch.producer.id)):
        return []
    if batch.partition is not None:
        return [HeadKey(topic.id, batch.partition)] * len(batch.contents)
    return [
        HeadKey(topic.id, partition_for(topic.partitioner, each.key, each.id, topic.partitions))
        for each in batch.contents
    ]


def as_json(value: object) -> str:
    """Return a value as a column in JSON."""
    return msgspec.json.encode(value).decode()
