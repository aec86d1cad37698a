"""Topics: list, show, create, grow, set retention, delete. `clear.py` clears one.

Deleting a topic frees its name: a later publish to it creates a new topic. Clearing keeps the topic: its
events are deleted in every state, staged and scheduled included, and no offset is ever given again. A topic
that grows keeps the order of every key: see `delivery.growth_barriers`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.database.contract import Rows
from penstock.database.database import Transaction
from penstock.database.migrations import raise_usable_from
from penstock.delivery import retention_rule
from penstock.delivery.groups import forget_topic
from penstock.delivery.growth_barriers import OLDEST_VERSION, add_cursors
from penstock.errors import InvalidRetention, InvalidSelection, TopicBusy
from penstock.log.contract import OUTBOX_PARTITIONS, Bounds, Compaction, Keep, Log, OffsetRange
from penstock.log.contract import Topic as LogTopic
from penstock.log.store import Store
from penstock.log.topics import check_growth
from penstock.membership.member import wait_until_heard
from penstock.model.limits import check_topic
from penstock.model.partition import MURMUR3

from . import audit
from .members import serving, touch_readers
from .operation import LAST, PAGE_ROWS, Page, SeesTopic, every_topic, operation, page, place_after

UNLIMITED = retention_rule.UNLIMITED


@dataclass(frozen=True, slots=True)
class TopicShown:
    """A topic. `records`: offsets it keeps.

    `retention_*`: the limits on age, bytes and records; None: as in the settings, UNLIMITED: no limit.
    """

    name: str
    partitions: int
    records: int
    groups: tuple[str, ...]
    retention_ms: int | None
    retention_bytes: int | None
    retention_records: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TopicPartition:
    """One partition: the first offset kept and the next one to be given."""

    partition: int
    start: int
    end: int


@operation
def topics(
    store: Store, *, after: str | None = None, limit: int = PAGE_ROWS, seen: SeesTopic = every_topic
) -> Page[TopicShown]:
    """Return a page of the topics that are `seen`, by name. Raises InvalidPage."""
    (name,) = place_after(after, limit, "")

    def look(tx: Transaction) -> tuple[list[LogTopic], dict[str, TopicShown]]:
        log = store.log_in(tx)
        found = [each for each in log.topics() if each.name > name and seen(each.name)][: limit + 1]
        return found, {each.name: each for each in _shown(tx, log, found[:limit])}

    found, shown = store.database.look(look)
    return page([(each.name,) for each in found], limit, 1, lambda row: shown[row[0]])


@operation
def show(store: Store, name: str) -> TopicShown:
    """Return a topic. Raises UnknownTopic, InvalidTopic."""

    def look(tx: Transaction) -> TopicShown:
        log = store.log_in(tx)
        (shown,) = _shown(tx, log, [log.topic(name)])
        return shown

    return store.database.look(look)


@operation
def size_bytes(store: Store, name: str) -> int:
    """Return the size of a topic as retention counts it; reads all of it."""
    topic = store.log.topic(name)
    ranges = [OffsetRange(number, *each) for number, each in store.log.all_bounds(topic).items()]
    return sum(store.log.sizes(topic, ranges).values())


@operation
def partitions(store: Store, name: str, *, after: str | None = None, limit: int = PAGE_ROWS) -> Page[TopicPartition]:
    """Return a page of a topic's partitions. Raises InvalidPage, UnknownTopic, InvalidTopic."""
    (place,) = place_after(after, limit, -1)
    bounds = store.log.all_bounds(store.log.topic(name))
    rows = [(number, *each) for number, each in sorted(bounds.items()) if number > place][: limit + 1]
    return page(rows, limit, 1, lambda row: TopicPartition(*row))


@operation
def create(
    store: Store,
    name: str,
    *,
    partitions: int = OUTBOX_PARTITIONS,
    partitioner: str = MURMUR3,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> bool:
    """Create a topic; return whether it is new. Raises InvalidTopic, InvalidPartitions, PartitionsDiffer."""
    check_topic(name)

    def make(tx: Transaction) -> bool:
        log = store.log_in(tx)
        is_new = name not in {each.name for each in log.topics()}
        log.create_topic(name, partitions=partitions, partitioner=partitioner)
        if is_new:
            subject = {"topic": name, "partitions": partitions}
            audit.write(tx, "topic create", subject, 1, own_ms(clock), actor=actor)
        return is_new

    return store.database.run(make)


@operation
def grow(store: Store, name: str, partitions: int, *, clock: Clock = SYSTEM, actor: str | None = None) -> TopicShown:
    """Give a topic more partitions, a multiple of its current number; safe beside publishers and workers.

    The order of every key stays, even with a backlog. Releases without support for growing may no longer use
    the tables: the call waits until every worker has learned this with its next heartbeat. Raises
    UnknownTopic, InvalidTopic, InvalidPartitions, InvalidGrowth, WriterElsewhere.
    """
    topic = store.log.topic(name)
    if check_growth(topic, partitions) == topic.partitions:
        return show(store, name)
    store.log.claim()
    store.database.run(lambda tx: raise_usable_from(tx, OLDEST_VERSION))
    wait_until_heard(store.database, clock)

    def change(tx: Transaction) -> None:
        log = store.log_in(tx)
        topic = log.pinned_topic(name, alone=True)
        check_growth(topic, partitions)
        touch_readers(tx, topic.id)
        add_cursors(tx, topic, log.all_bounds(topic), partitions)
        if partitions > topic.partitions:
            subject = {"topic": name, "partitions": partitions, "before": topic.partitions}
            audit.write(tx, "topic grow", subject, 1, own_ms(clock), actor=actor)
        log.grow(name, partitions)

    store.database.run(change)
    return show(store, name)


@operation
def set_retention(
    store: Store,
    name: str,
    *,
    age: timedelta | int | None = None,
    max_bytes: int | None = None,
    max_records: int | None = None,
    default: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> TopicShown:
    """Set the retention of a topic; limits that are not given stay. `default`: all as in the settings.

    Any limit may be UNLIMITED. An age of 0 keeps only records that a group has not passed yet. Raises
    InvalidRetention, InvalidSelection, UnknownTopic.
    """
    given = {"age": age, "max_bytes": max_bytes, "max_records": max_records}
    if default == any(each is not None for each in given.values()):
        raise InvalidSelection("give an age, a number of bytes or of records to keep, or the default")
    if isinstance(age, int) and age != UNLIMITED:
        raise InvalidRetention("the age", age, "a timedelta, or unlimited")
    if isinstance(age, timedelta) and age < timedelta(0):
        raise InvalidRetention("the age", str(age), "0 or more")
    for what, most in (("the bytes", max_bytes), ("the records", max_records)):
        if most is not None and most != UNLIMITED and not 0 < most <= LAST:
            raise InvalidRetention(what, most, "1 or more, or unlimited; to empty a topic, clear it")
    retention_ms = age // timedelta(milliseconds=1) if isinstance(age, timedelta) else age

    def change(tx: Transaction) -> None:
        log = store.log_in(tx)
        keep = Keep(retention_ms, max_bytes, max_records)
        changed = [field for field, limit in keep._asdict().items() if default or limit is not None]
        log.retain(log.topic(name), keep, only=changed)
        limits = {"retention_ms": retention_ms, "max_bytes": max_bytes, "max_records": max_records}
        subject = {"topic": name, "default": default or None} | limits
        audit.write(tx, "topic set", subject, 1, own_ms(clock), actor=actor)

    store.database.run(change)
    return show(store, name)


@operation
def set_compaction(
    store: Store, name: str, tombstones: timedelta | None, *, clock: Clock = SYSTEM, actor: str | None = None
) -> None:
    """Compact a topic: keep the last record of each key, and tombstones for at least this long; None: end it.

    Raises StoreUnsupported if the log is not in files, InvalidRetention, UnknownTopic.
    """
    if tombstones is not None and tombstones < timedelta(0):
        raise InvalidRetention("the age of tombstones", str(tombstones), "0 or more")
    kept_ms = None if tombstones is None else tombstones // timedelta(milliseconds=1)
    store.log.compact(store.log.topic(name), None if kept_ms is None else Compaction(kept_ms))
    subject = {"topic": name, "compact": kept_ms is not None, "tombstone_ms": kept_ms}
    store.database.run(lambda tx: audit.write(tx, "topic set", subject, 1, own_ms(clock), actor=actor))


@operation
def delete(store: Store, name: str, *, force: bool = False, clock: Clock = SYSTEM, actor: str | None = None) -> int:
    """Delete a topic with its records and every group's cursors on it; return how many records it had.

    Events staged or scheduled for it stay, and create it again. Raises UnknownTopic, InvalidTopic, TopicBusy
    while living members serve it, unless forced, and WriterElsewhere.
    """
    store.log.topic(name)
    store.log.claim()  # before anything is deleted

    def forget(tx: Transaction) -> tuple[LogTopic, int]:
        log = store.log_in(tx)
        topic = log.pinned_topic(name, alone=True)
        touch_readers(tx, topic.id)
        busy = serving(tx, clock).topics.get(topic.id, [])
        if busy and not force:
            raise TopicBusy(name, busy)
        records = _records(log.all_bounds(topic))
        forget_topic(tx, topic.id)
        tx.change("membership", "domains_delete", topic_id=topic.id)
        audit.write(tx, "topic delete", {"topic": name}, records, own_ms(clock), actor=actor)
        if store.is_one:
            log.delete_topic(name)
        return topic, records

    topic, records = store.database.run(forget)
    if not store.is_one:
        store.log.delete_topic(name)
    store.log.sweep(topic)
    return records


def _records(bounds: Mapping[int, Bounds]) -> int:
    return sum(end - start for start, end in bounds.values())


def _shown(tx: Transaction, log: Log, topics: Sequence[LogTopic]) -> list[TopicShown]:
    """Return topics for listings, with one query for all groups and one for all bounds."""
    groups, bounds = dict[int, tuple[str, ...]](), log.bounds_of(topics)
    ids = Rows(topic_id=[each.id for each in topics])
    for id, group in tx.rows("operate", "topics_groups", topics=ids) if topics else []:
        groups[id] = (*groups.get(id, ()), group)
    shown = []
    for each in topics:
        records, readers = _records(bounds[each.id]), groups.get(each.id, ())
        shown.append(TopicShown(each.name, each.partitions, records, readers, *each.keep, from_ms(each.created_ms)))
    return shown
