"""Topics in the database: creation, lookup, locking, deletion."""

from collections.abc import Iterable
from enum import Enum

from penstock.database.contract import Call, Row, Rows
from penstock.database.database import Transaction
from penstock.errors import PartitionerDiffers, PartitionsDiffer, TopicVanished, UnknownTopic
from penstock.model.limits import check_topic
from penstock.model.partition import MURMUR3

from ..contract import OUTBOX_PARTITIONS, Growth, Keep, Topic
from ..topics import check_growth

_FORGET = ("topic_delete", "heads_delete", "times_delete", "generations_delete", "holds_delete")


def topic_of(row: Row) -> Topic:
    """Return the topic of a row."""
    id, name, partitions, partitioner, created_ms, generation, *keep = row
    return Topic(id, name, partitions, partitioner, created_ms, Keep(*keep), generation)


def list_topics(tx: Transaction) -> list[Topic]:
    """Return all topics, by name."""
    return [topic_of(row) for row in tx.rows("log", "topic_list")]


class TopicLock(Enum):
    """The lock on a topic's row until the transaction ends; the values are the statements."""

    NONE = "topic_find"
    KEPT = "topic_keep"  # shared: prevents deletion
    ALONE = "topic_lock"  # exclusive: also prevents appends and other locks


def find_topic(tx: Transaction, name: str, lock: TopicLock = TopicLock.NONE) -> Topic:
    """Return a topic by name. Raises UnknownTopic."""
    check_topic(name)
    found = kept(tx.rows("log", lock.value, names=[name]))
    if name not in found:
        raise UnknownTopic(name)
    return found[name]


def keep_topics(tx: Transaction, names: Iterable[str], *, waits: bool = True) -> dict[str, Topic]:
    """Return the existing topics, locked against deletion until the transaction ends.

    `waits`: for topics that are being deleted or grown; else they are left out.
    """
    if not waits:
        return kept(tx.rows("log", "topic_keep_free", names=sorted(set(names))))
    return kept(tx.execute(*keeping(names)).rows)


def keeping(names: Iterable[str]) -> Call:
    """Return the statement that locks topics against deletion until the transaction ends."""
    return Call("log", "topic_keep", {"names": sorted(set(names))})


def kept(rows: Iterable[Row]) -> dict[str, Topic]:
    """Return the topics of its rows, by name."""
    return {row[1]: topic_of(row) for row in rows}


def ensure_topics(tx: Transaction, names: Iterable[str], now_ms: int | None) -> dict[str, Topic]:
    """Return the topics, creating missing ones."""
    wanted = set(names)
    topics = keep_topics(tx, wanted)
    missing = sorted(wanted - topics.keys())
    for name in missing:
        make_topic(tx, name, OUTBOX_PARTITIONS, MURMUR3, now_ms)
    return topics | keep_topics(tx, missing) if missing else topics


def create_topic(tx: Transaction, name: str, partitions: int, partitioner: str, now_ms: int | None) -> Topic:
    """Create a topic, or return the existing one. Raises PartitionsDiffer, PartitionerDiffers."""
    topic = make_topic(tx, name, partitions, partitioner, now_ms)
    if topic.partitions != partitions:
        raise PartitionsDiffer(name, topic.partitions, partitions)
    if topic.partitioner != partitioner:
        raise PartitionerDiffers(name, topic.partitioner, partitioner)
    return topic


def make_topic(tx: Transaction, name: str, partitions: int, partitioner: str, now_ms: int | None) -> Topic:
    """Create a topic and its heads, or return the existing one, whatever its settings."""
    params = {"name": name, "partitions": partitions, "partitioner": partitioner, "now_ms": now_ms}
    tx.change("log", "topic_create", **params)
    found = keep_topics(tx, [name])
    if name not in found:  # deleted meanwhile; the transaction is retried
        raise TopicVanished
    topic = found[name]
    tx.change("log", "heads_create", topic_id=topic.id, partitions=topic.partitions)
    return topic


def grow_topic(tx: Transaction, name: str, partitions: int) -> Topic:
    """Give a topic more partitions, locked against appends and trims."""
    topic = find_topic(tx, name, TopicLock.ALONE)
    if check_growth(topic, partitions) == topic.partitions:
        return topic
    tx.rows("log", "heads_pin", topic_id=topic.id, partitions=list(range(topic.partitions)))
    tx.change("log", "generation_add", topic_id=topic.id, generation=topic.generation)
    tx.change("log", "topic_grow", topic_id=topic.id, partitions=partitions)
    tx.change("log", "heads_create", topic_id=topic.id, partitions=partitions)
    new = range(topic.partitions, partitions)
    tx.change("log", "holds_grow", topic_id=topic.id, holds=Rows(partition=list(new), place=[0] * len(new)))
    return find_topic(tx, name)


def growths(tx: Transaction, topic_id: int) -> list[Growth]:
    """Return the growths of a topic, the first one first."""
    ends: dict[int, list[int]] = {}
    for generation, end in tx.rows("log", "generations_read", topic_id=topic_id):
        ends.setdefault(generation, []).append(end)
    return [Growth(tuple(each)) for each in ends.values()]


def remove_topic(tx: Transaction, name: str) -> Topic:
    """Remove a topic except its records, and return it."""
    topic = find_topic(tx, name, TopicLock.ALONE)
    for statement in _FORGET:
        reader = {"reader": None} if statement == "holds_delete" else {}
        tx.change("log", statement, topic_id=topic.id, **reader)
    tx.change("log", "topic_config_delete", topic_id=topic.id, name=None)
    return topic
