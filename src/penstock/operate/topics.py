"""Topics: list, show, create, set what is kept, clear, delete.

Deleting a topic takes its name away: what is published to it later makes another. Clearing keeps it: the
records are gone in every state, staged and scheduled included, and no offset is ever given again.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.errors import (
    InvalidRetention,
    InvalidSelection,
    PartitionsDiffer,
    TopicBusy,
    UnknownTopic,
)
from penstock.log.contract import OUTBOX_PARTITIONS
from penstock.log.sql.contract import Row
from penstock.log.sql.database import Database, Transaction
from penstock.log.sql.heads import create_topic, find_topics
from penstock.log.sql.log import forget_topic, remove_records
from penstock.log.sql.retention import FOR_EVER
from penstock.model.limits import check_topic
from penstock.model.partition import check_partitions

from . import audit
from .paging import LAST, PAGE_ROWS, Page, check_limit, page, place_after
from .presence import serving

UNLIMITED = FOR_EVER


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `records`: offsets it keeps.

    `retention_*`: how long, how much and how many are kept; None: as the settings say, UNLIMITED: for ever.
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
    """One partition: the first offset kept and the next to be given."""

    partition: int
    start: int
    end: int


def topics(database: Database, *, after: str | None = None, limit: int = PAGE_ROWS) -> Page[Topic]:
    """Return a page of the topics, by name. Raises InvalidPage."""
    check_limit(limit)
    (name,) = place_after(after, (str,), ("",))

    def look(tx: Transaction) -> tuple[list[Row], dict[int, list[str]]]:
        rows = tx.rows("operate", "topics_list", after=name, limit=limit + 1)
        return rows, _groups(tx, [row[1] for row in rows[:limit]])

    rows, groups = database.look(look)
    return page(rows, limit, 1, lambda row: _shown(row, groups))


def show(database: Database, name: str) -> Topic:
    """Return a topic. Raises UnknownTopic, InvalidTopic."""
    check_topic(name)

    def look(tx: Transaction) -> Topic:
        rows = tx.rows("operate", "topic_show", name=name)
        if not rows:
            raise UnknownTopic(name)
        return _shown(rows[0], _groups(tx, [rows[0][1]]))

    return database.look(look)


def size_bytes(database: Database, name: str) -> int:
    """Return how many bytes the keys, values and headers of a topic have; reads all of it."""
    return int(database.look(lambda tx: tx.rows("operate", "topic_bytes", topic_id=_id(tx, name)))[0][0])


def partitions(
    database: Database, name: str, *, after: str | None = None, limit: int = PAGE_ROWS
) -> Page[TopicPartition]:
    """Return a page of a topic's partitions. Raises InvalidPage, UnknownTopic, InvalidTopic."""
    check_limit(limit)
    (place,) = place_after(after, (int,), (-1,))
    rows = database.look(
        lambda tx: tx.rows(
            "operate", "topic_partitions", topic_id=_id(tx, name), after=place, limit=limit + 1
        )
    )
    return page(rows, limit, 1, lambda row: TopicPartition(*row))


def create(
    database: Database,
    name: str,
    *,
    partitions: int = OUTBOX_PARTITIONS,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> bool:
    """Make a topic; return whether it was not there yet.

    Raises InvalidTopic, InvalidPartitions, PartitionsDiffer.
    """
    check_topic(name)
    check_partitions(partitions)
    now_ms = own_ms(clock)

    def make(tx: Transaction) -> bool:
        known = find_topics(tx, [name]).get(name)
        topic = known or create_topic(tx, name, partitions, now_ms)
        if topic.partitions != partitions:
            raise PartitionsDiffer(name, topic.partitions, partitions)
        if known is None:
            subject = {"topic": name, "partitions": partitions}
            audit.write(tx, "topic create", subject, 1, now_ms, actor=actor)
        return known is None

    return database.run(make)


def set_retention(
    database: Database,
    name: str,
    *,
    age: timedelta | int | None = None,
    max_bytes: int | None = None,
    max_records: int | None = None,
    default: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> Topic:
    """Say what is kept of a topic; what is not said stays. `default`: all as the settings say.

    Any of them may be UNLIMITED. An age of 0 keeps what some group has not passed, and no more. Raises
    InvalidRetention, InvalidSelection, UnknownTopic.
    """
    given = {"age": age, "max_bytes": max_bytes, "max_records": max_records}
    if default == any(each is not None for each in given.values()):
        raise InvalidSelection("say what is kept of a topic: an age, bytes or records; or the default")
    if isinstance(age, int) and age != UNLIMITED:
        raise InvalidRetention("the age", age, "a timedelta, or unlimited")
    if isinstance(age, timedelta) and age < timedelta(0):
        raise InvalidRetention("the age", str(age), "0 or more")
    for what, most in (("the bytes", max_bytes), ("the records", max_records)):
        if most is not None and most != UNLIMITED and not 0 < most <= LAST:
            raise InvalidRetention(what, most, "1 or more, or unlimited; to empty a topic, clear it")
    retention_ms = age // timedelta(milliseconds=1) if isinstance(age, timedelta) else age

    def change(tx: Transaction) -> None:
        params = {"retention_ms": retention_ms, "max_bytes": max_bytes, "max_records": max_records}
        tx.change("operate", "topic_retain", topic_id=_id(tx, name), keep=not default, **params)
        subject = {"topic": name, "default": default or None} | params
        audit.write(tx, "topic set", subject, 1, own_ms(clock), actor=actor)

    database.run(change)
    return show(database, name)


def delete(
    database: Database, name: str, *, force: bool = False, clock: Clock = SYSTEM, actor: str | None = None
) -> int:
    """Remove a topic with all its records and every group's place in it; return how many records it had.

    What is staged or scheduled for it stays, and makes it anew. Raises UnknownTopic, InvalidTopic, and
    TopicBusy while living members serve it, unless forced.
    """

    def forget(tx: Transaction) -> tuple[int, int]:
        id = _id(tx, name)
        busy = serving(tx, clock).topics.get(id, [])
        if busy and not force:
            raise TopicBusy(name, busy)
        records = int(tx.rows("operate", "topic_records", topic_id=id)[0][0])
        forget_topic(tx, name)
        audit.write(tx, "topic delete", {"topic": name}, records, own_ms(clock), actor=actor)
        return id, records

    id, records = database.run(forget)
    remove_records(database, id)
    return records


def _id(tx: Transaction, name: str) -> int:
    check_topic(name)
    found = find_topics(tx, [name])
    if name not in found:
        raise UnknownTopic(name)
    return found[name].id


def _groups(tx: Transaction, ids: list[int]) -> dict[int, list[str]]:
    """Return the names of the groups that read each of some topics."""
    found: dict[int, list[str]] = {}
    for id, group in tx.rows("operate", "topics_groups", topics=ids) if ids else []:
        found.setdefault(id, []).append(group)
    return found


def _shown(row: Row, groups: dict[int, list[str]]) -> Topic:
    name, id, partitions, created_ms, retention_ms, most_bytes, most_records, records = row
    kept = retention_ms, most_bytes, most_records
    return Topic(name, partitions, int(records), tuple(groups.get(id, [])), *kept, from_ms(created_ms))
