"""Deleting records of the log by hand: what all groups are done with, or the oldest of one partition.

The log is dense, so only the oldest of a partition can go. What waits in a lane is copied there before, as by
retention; a dead letter has its own copy.
"""

from datetime import datetime
from functools import partial

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.delivery.retention import Retention, Trimmed
from penstock.delivery.retention_rule import PassedBefore, RetentionSettings
from penstock.delivery.retention_trim import trim
from penstock.errors import InvalidSelection, OffsetOutOfRange, StillNeeded
from penstock.log.contract import OffsetRange, Topic, check_partition
from penstock.log.sql.contract import Row
from penstock.log.sql.database import Transaction
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

    Of a partition the oldest go first: one of a later moment keeps what stands behind it. A topic that no
    group reads keeps all. Raises UnknownTopic, InvalidTime.
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

    Refused when a group has yet to pass one of them, unless forced: that group then goes on with the oldest
    there is. Raises UnknownTopic, UnknownPartition, OffsetOutOfRange beyond what there is, InvalidSelection
    when there is nothing below it or a group has yet to pass it.
    """
    found = store.log.topic(topic)
    check_partition(found, partition)
    place = {"topic_id": found.id, "partition": partition, "before": before}
    total, behind = 0, list[Row]()

    def is_needed(tx: Transaction) -> bool:
        behind[:] = [] if force else tx.rows("delivery", "cursors_below", **place)
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
                f"group {name} is at {reached} of {topic}/{partition} and has yet to pass {before}; delete "
                "less, or force it"
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
