"""Records that a handler's fallback completed: without it they would be dead letters.

They are listed as long as the log holds them.
"""

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from penstock.clock import from_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.log.contract import Log, Position
from penstock.log.entry import Entry, key_text
from penstock.log.store import Store

from .operation import PAGE_ROWS, Page, check_limit, ids, operation, page, places_after, with_topic_names

_FIRST = {"after_group": 0, "after_topic": 0, "after_partition": 0, "after_offset": -1}


@dataclass(frozen=True, slots=True)
class FallbackCompletion:
    """A record that its handler's fallback completed: the number of failures and the last reason."""

    group: str
    topic: str
    partition: int
    offset: int
    id: str
    key: str | None
    type: str
    failures: int
    reason: str
    completed_at: datetime


@operation
def completed_by_fallback(
    store: Store,
    *,
    group: str | None = None,
    topic: str | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[FallbackCompletion]:
    """Return a page of the records that a fallback completed, by group, topic, partition and offset.

    Raises InvalidPage, UnknownGroup, UnknownTopic.
    """
    check_limit(limit)
    params = ids(store, group, topic) | places_after(after, _FIRST)

    def look(tx: Transaction) -> tuple[list[Row], dict[Row, Entry]]:
        log = store.log_in(tx)
        found = tx.rows("operate", "fallbacks_list", limit=limit + 1, **params)
        rows = with_topic_names(log, found, id_at=1, name_at=5)
        return rows, _entries(log, rows)

    def completion(row: Row) -> FallbackCompletion:
        partition, offset, group, topic, failures, reason, completed_ms = row[2:]
        entry = entries.get(row[1:4])
        content = ("", None, "") if entry is None else (entry.id, key_text(entry.key), entry.type or "")
        return FallbackCompletion(group, topic, partition, offset, *content, failures, reason, from_ms(completed_ms))

    rows, entries = store.database.look(look)
    return page(rows, limit, len(_FIRST), completion)


def _entries(log: Log, rows: list[Row]) -> dict[Row, Entry]:
    """Return the records of a page, by topic, partition and offset."""
    topics, found = {each.id: each for each in log.topics()}, dict[Row, Entry]()
    for topic_id, several in groupby(sorted({row[1:4] for row in rows}), key=lambda place: place[0]):
        places = [Position(partition, offset) for _, partition, offset in several]
        for entry in log.at(topics[topic_id], places, bare=True):
            found[topic_id, entry.partition, entry.offset] = entry
    return found
