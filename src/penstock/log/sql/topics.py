"""Topics in the database: creation, lookup, locking, deletion; and what else of a log is in tables."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.contract import Call, Row, Rows
from penstock.database.database import Database, Transaction
from penstock.errors import PartitionerDiffers, PartitionsDiffer, TopicVanished, UnknownTopic
from penstock.model.limits import check_topic
from penstock.model.partition import MURMUR3, check_partitioner, check_partitions

from ..contract import OUTBOX_PARTITIONS, Growth, Keep, Log, LogIdentity, Topic
from ..topics import check_growth

T = TypeVar("T")
_FORGET = ("topic_delete", "heads_delete", "times_delete", "generations_delete", "holds_delete")


def topic_of(row: Row) -> Topic:
    """Return the topic of a row."""
    id, name, partitions, partitioner, created_ms, generation, *keep = row
    return Topic(id, name, partitions, partitioner, created_ms, Keep(*keep), generation)


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
    """Return the existing topics, locked against deletion; without `waits`, not those being deleted or grown."""
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


def remove_topic(tx: Transaction, name: str) -> Topic:
    """Remove a topic except its records, and return it."""
    topic = find_topic(tx, name, TopicLock.ALONE)
    for statement in _FORGET:
        reader = {"reader": None} if statement == "holds_delete" else {}
        tx.change("log", statement, topic_id=topic.id, **reader)
    tx.change("log", "topic_config_delete", topic_id=topic.id, name=None)
    return topic


class TopicTables(Log):
    """The tables of a log, whatever holds its records. Each call is a transaction, or part of the given one."""

    def __init__(self, database: Database, clock: Clock = SYSTEM, tx: Transaction | None = None) -> None:
        self.database, self._clock, self._tx = database, clock, tx

    def _look(self, work: Callable[[Transaction], T]) -> T:
        return self.database.look(work) if self._tx is None else work(self._tx)

    def _run(self, work: Callable[[Transaction], T]) -> T:
        return self.database.run(work) if self._tx is None else work(self._tx)

    def rows(self, name: str, topic: Topic, **params: Any) -> list[Row]:
        """Run a statement of this room that reads one topic."""
        return self._look(lambda tx: tx.rows("log", name, topic_id=topic.id, **params))

    def identity(self) -> LogIdentity:
        return self._look(_identity)

    def raise_incarnation(self, above: int) -> LogIdentity:
        """Raise the incarnation to the time in seconds, which no restored backup can hold."""

        def change(tx: Transaction) -> LogIdentity:
            found = _identity(tx)
            if found.incarnation > above:
                return found
            raised = max(above + 1, tx.now_ms(own_ms(self._clock)) // 1000)
            known = str(found.incarnation)
            if not tx.change("database", "incarnation_raise", known=known, raised=str(raised)):
                return _identity(tx)
            return found._replace(incarnation=raised)

        return self._run(change)

    def create_topic(self, name: str, *, partitions: int = OUTBOX_PARTITIONS, partitioner: str = MURMUR3) -> Topic:
        check_topic(name)
        check_partitions(partitions)
        check_partitioner(partitioner)
        now_ms = own_ms(self._clock)
        topic = self._run(lambda tx: make_topic(tx, name, partitions, partitioner, now_ms))
        if topic.partitions != partitions:
            raise PartitionsDiffer(name, topic.partitions, partitions)
        if topic.partitioner != partitioner:
            raise PartitionerDiffers(name, topic.partitioner, partitioner)
        return topic

    def topics(self) -> list[Topic]:
        return [topic_of(row) for row in self._look(lambda tx: tx.rows("log", "topic_list"))]

    def topic(self, name: str) -> Topic:
        return self._look(lambda tx: find_topic(tx, name))

    def pinned_topic(self, name: str, *, alone: bool = False) -> Topic:
        return self._run(lambda tx: find_topic(tx, name, TopicLock.ALONE if alone else TopicLock.KEPT))

    def grow(self, name: str, partitions: int) -> Topic:
        return self._run(lambda tx: grow_topic(tx, name, partitions))

    def growths(self, topic: Topic) -> list[Growth]:
        ends: dict[int, list[int]] = {}
        for generation, end in self.rows("generations_read", topic):
            ends.setdefault(generation, []).append(end)
        return [Growth(tuple(each)) for each in ends.values()]

    def retain(self, topic: Topic, keep: Keep, *, only: Collection[str] = Keep._fields) -> None:
        params = {"topic_id": topic.id, **keep._asdict(), "only": sorted(only)}
        if not self._run(lambda tx: tx.change("log", "topic_retain", **params)):
            raise UnknownTopic(topic.name)

    def trim_producers(self, prefix: str, epoch: int, *, limit: int = 1000) -> int:
        high = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        params = {"low": prefix, "high": high, "epoch": epoch, "limit": limit}
        return self._run(lambda tx: tx.change("log", "producers_trim", **params))

    def hold(self, reader: str, topic: Topic, offsets: Mapping[int, int]) -> None:
        holds = Rows(partition=list(offsets), place=list(offsets.values()))

        def put(tx: Transaction) -> None:
            find_topic(tx, topic.name, TopicLock.KEPT)
            # A running trim ends first; a later one checks the holds.
            tx.rows("log", "heads_pin", topic_id=topic.id, partitions=sorted(offsets))
            tx.change("log", "holds_delete", topic_id=topic.id, reader=reader)
            if offsets:
                tx.change("log", "hold_put", topic_id=topic.id, reader=reader, holds=holds)

        self._run(put)

    def holds(self, topic: Topic) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {}
        for reader, partition, offset in self.rows("holds_list", topic):
            found.setdefault(reader, {})[partition] = offset
        return found

    def holds_of(self, topics: Sequence[Topic]) -> dict[int, dict[str, dict[int, int]]]:
        found: dict[int, dict[str, dict[int, int]]] = {topic.id: {} for topic in topics}
        for topic_id, reader, partition, offset in self._look(lambda tx: tx.rows("log", "holds_all")):
            if topic_id in found:
                found[topic_id].setdefault(reader, {})[partition] = offset
        return found


def _identity(tx: Transaction) -> LogIdentity:
    ((id,),) = tx.rows("database", "meta_read", name="log_id")
    ((incarnation,),) = tx.rows("database", "meta_read", name="incarnation")
    return LogIdentity(str(id), int(incarnation))
