"""Deletes records of the log by hand: those that all groups are done with, or the oldest of a partition.

The log is dense, so only the oldest records of a partition can be deleted. Records that wait in a lane are
copied there first, as retention does; a dead letter has its own copy.
"""

from datetime import datetime
from functools import partial

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.delivery.retention import Retention, Trimmed
from penstock.delivery.retention_rule import PassedBefore, RetentionSettings
from penstock.delivery.retention_trim import trim
from penstock.errors import InvalidSelection, OffsetOutOfRange, StillNeeded
from penstock.log.contract import OffsetRange, Topic, check_partition
from penstock.log.store import Store
from penstock.model.limits import check_moment

from . import audit
from .operation import operation

BATCH = 1000  # records deleted in one transaction


@operation
def delete_done(
    store: Store,
    before: datetime,
    *,
    topic: str | None = None,
    dry_run: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> Trimmed:
    """Delete the records published before a moment that every group has passed; return how many.

    Deletes from the oldest on: a record of a later moment keeps all records behind it. A topic that no group
    reads keeps everything. Raises UnknownTopic, InvalidTime.
    """
    before_ms = check_moment("before", before, 0)
    if topic is not None:
        store.log.topic(topic)

    def note(tx: Transaction, name: str, count: int) -> None:
        subject = {"topic": name, "state": "done", "before": before.isoformat()}
        audit.write(tx, "events delete", subject, count, own_ms(clock), actor=actor)

    rule = PassedBefore(before_ms)
    passed = Retention(store, RetentionSettings.load(), clock, rule=rule, note=note)
    if dry_run:
        return Trimmed(passed.planned(topic))
    total = passed.run(topic)
    while total.full:
        total += passed.run(topic)
    return total


@operation
def delete_records(
    store: Store,
    topic: str,
    partition: int,
    before: int,
    *,
    force: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> int:
    """Delete the records of a partition below an offset; return how many.

    Refused if a group has not passed one of them, unless forced: that group then continues with the oldest
    record left. Raises UnknownTopic, UnknownPartition, OffsetOutOfRange beyond the end, and InvalidSelection
    if there is nothing below the offset or a group has not passed it.
    """
    found = store.log.topic(topic)
    check_partition(found, partition)
    place = {"topic_id": found.id, "partition": partition, "before": before}
    total, behind = 0, list[Row]()

    def is_needed(tx: Transaction) -> bool:
        behind[:] = [] if force else tx.rows("operate", "cursors_below", **place)
        return bool(behind)

    while True:
        start, end = store.log.bounds(topic, partition)
        if total and before <= start:
            return total  # another process has deleted the rest
        if not 0 <= before <= end:
            raise OffsetOutOfRange(topic, partition, before, start, end)
        if before <= start:
            raise InvalidSelection(f"{topic}/{partition} begins at {start}: there is nothing below {before}")
        high = min(before, start + BATCH)
        note = partial(_noted, clock, actor, found, partition, high)
        try:
            total += trim(store, found, [OffsetRange(partition, start, high)], unless=is_needed, note=note)
        except StillNeeded:
            name, reached = behind[0]
            raise InvalidSelection(
                f"group {name} is at {reached} of {topic}/{partition} and has not passed {before} yet; "
                "choose a lower offset, or force it"
            ) from None
        if high == before:
            return total


def _noted(
    clock: Clock,
    actor: str | None,
    topic: Topic,
    partition: int,
    before: int,
    tx: Transaction,
    count: int,
) -> None:
    subject = {"topic": topic.name, "partition": partition, "before": before}
    audit.write(tx, "records delete", subject, count, own_ms(clock), actor=actor)
