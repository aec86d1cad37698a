"""Deleting records of the log by hand: what all groups are done with, or the oldest of one partition.

The log is dense, so only the oldest of a partition can go. What waits in a lane is copied there before, as by
retention; a dead letter has its own copy.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.errors import InvalidSelection, OffsetOutOfRange, UnknownPartition
from penstock.log.sql.database import Database, Transaction
from penstock.log.sql.log import SqlLog
from penstock.log.sql.passed import Passed
from penstock.log.sql.retention import Range, RetentionSettings, Trimmed, trim
from penstock.model.limits import check_moment

from . import audit

BATCH = 1000  # records deleted in one transaction


def delete_done(
    database: Database,
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
        SqlLog(database).topic(topic)

    def note(tx: Transaction, name: str, count: int) -> None:
        subject = {"topic": name, "state": "done", "before": before.isoformat()}
        audit.write(tx, "events delete", subject, count, own_ms(clock), actor=actor)

    passed = Passed(database, RetentionSettings.load(), clock, before_ms=before_ms, note=note)
    if dry_run:
        return Trimmed(passed.planned(topic))
    total: dict[str, int] = {}
    while True:
        done = passed.run(topic)
        for name, count in done.deleted.items():
            total[name] = total.get(name, 0) + count
        if not done.full:
            return Trimmed(total)


def delete_records(
    database: Database,
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
    found = SqlLog(database).topic(topic)
    if not 0 <= partition < found.partitions:
        raise UnknownPartition(topic, partition, found.partitions)
    total = 0
    while True:
        act = partial(
            _step, found.id, topic, partition, before, force, _noting(clock, actor, topic, partition)
        )
        deleted, left = database.run(act if not total else partial(act, begun=True))
        total += deleted
        if not left:
            return total


def _step(
    topic_id: int,
    topic: str,
    partition: int,
    before: int,
    force: bool,
    note: Callable[[Transaction, int, int], None],
    tx: Transaction,
    *,
    begun: bool = False,
) -> tuple[int, bool]:
    """Delete a batch; return how many, and whether there are more."""
    bounds = {row[0]: row[1:] for row in tx.rows("operate", "heads_of_topic", topic_id=topic_id)}
    start, end = bounds.get(partition, (0, 0))
    if before <= start and begun:
        return 0, False  # somebody else has deleted the rest
    if not 0 <= before <= end:
        raise OffsetOutOfRange(topic, partition, before, start, end)
    if before <= start:
        raise InvalidSelection(f"{topic}/{partition} begins at {start}: there is nothing below {before}")
    high = min(before, start + BATCH)
    deleted = trim(tx, topic_id, [Range(partition, start, high)])
    # Asked last, when the head is locked: who resets a group later finds where the partition begins.
    behind = tx.rows("operate", "cursors_below", topic_id=topic_id, partition=partition, before=before)
    if behind and not force:
        name, reached = behind[0]
        raise InvalidSelection(
            f"group {name} is at {reached} of {topic}/{partition} and has yet to pass {before}; delete less, "
            "or force it"
        )
    note(tx, deleted, high)
    return deleted, high < before


def _noting(
    clock: Clock, actor: str | None, topic: str, partition: int
) -> Callable[[Transaction, int, int], None]:
    def note(tx: Transaction, count: int, before: int) -> None:
        subject = {"topic": topic, "partition": partition, "before": before}
        audit.write(tx, "records delete", subject, count, own_ms(clock), actor=actor)

    return note
