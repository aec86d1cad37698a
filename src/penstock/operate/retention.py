"""Retention by hand, and which groups it no longer waits for. Workers do it by themselves."""

from datetime import timedelta

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.log.sql.database import Database
from penstock.log.sql.log import SqlLog
from penstock.log.sql.retention import Retention, RetentionSettings, Trimmed
from penstock.worker.retention import Housekeeping

from .doctor import Finding, State


def retain(database: Database, topic: str | None = None, *, clock: Clock = SYSTEM) -> Trimmed:
    """Delete all that need not be kept, in passes, of one topic or of all; return how many records of each.

    Safe beside workers and publishers, and to run again. Raises UnknownTopic.
    """
    if topic is not None:
        SqlLog(database).topic(topic)
    housekeeping, total = Housekeeping(database, clock), dict[str, int]()
    while True:
        done = housekeeping.run(topic)
        for name, count in done.deleted.items():
            total[name] = total.get(name, 0) + count
        if not done.full:
            return Trimmed(total)


def planned(database: Database, topic: str | None = None, *, clock: Clock = SYSTEM) -> Trimmed:
    """Return what `retain` would delete now. Raises UnknownTopic."""
    if topic is not None:
        SqlLog(database).topic(topic)
    return Trimmed(Retention(database, RetentionSettings.load(), clock).planned(topic))


def examine_groups(database: Database, clock: Clock = SYSTEM) -> list[Finding]:
    """Name the groups that had no member for so long that retention does not wait for them."""
    expires = RetentionSettings.load().group_expires
    params = {"now_ms": own_ms(clock), "expires_ms": expires // timedelta(milliseconds=1)}
    rows = database.look(lambda tx: tx.rows("operate", "groups_expired", **params))
    return [
        Finding(
            f"Group {name}",
            State.LOW if lost else State.NOTE,
            f"no member since {from_ms(seen_ms):%Y-%m-%d}: retention does not wait for it"
            + (f", {lost} records it had not passed are deleted" if lost else ""),
            "every record for each of its handlers",
            f"run a worker with its handlers; if it is no longer needed: penstock groups delete {name}",
        )
        for name, seen_ms, lost in rows
    ]
