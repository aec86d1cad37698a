"""Beside the dead letters: their errors, and the records that a fallback kept from becoming one.

Dead letters are grouped by error: how often, and since when. Only the newest letters, to bound the work. Two
letters have the same error if their reasons agree up to the first digit, quote or bracket, where reasons start
to differ from record to record. That prefix also selects the letters (`DeadSelection.error`).

Records that a handler's fallback completed are listed as long as the log holds them.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from penstock.clock import from_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.log.contract import Log, Position
from penstock.log.entry import Entry, key_text
from penstock.log.store import Store

from .dead import DeadLetter, dead_letters
from .operation import PAGE_ROWS, Page, SeesTopic, every_topic, ids, operation, page, places_after, with_topic_names

LOOKED_AT = 1000  # letters, the newest
_LONGEST = 80
_VARIES = re.compile(r"[0-9'\"`({\[<\N{LEFT DOUBLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}]")
_LEAST = 8  # characters: a shorter prefix tells too little, so the whole reason is the error


@dataclass(frozen=True, slots=True)
class DeadError:
    """One error in one group. `newest`: the last letter with it. `holding`: how many hold their keys."""

    group: str
    error: str
    count: int
    holding: int
    topics: tuple[str, ...]
    types: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    newest: DeadLetter


@dataclass(frozen=True, slots=True)
class DeadErrors:
    """The errors of the newest letters, most frequent first. `is_cut`: there are older letters."""

    errors: list[DeadError]
    looked_at: int
    is_cut: bool


@operation
def dead_errors(
    store: Store,
    *,
    group: str | None = None,
    topic: str | None = None,
    type: str | None = None,
    seen: SeesTopic = every_topic,
) -> DeadErrors:
    """Return the errors of the newest dead letters, on the topics that the caller may see.

    Raises UnknownGroup, UnknownTopic.
    """
    page = dead_letters(store, group=group, topic=topic, type=type, limit=LOOKED_AT, seen=seen)
    found: dict[tuple[str, str], list[DeadLetter]] = {}
    for each in page.items:  # newest first
        found.setdefault((each.group, error_of(each.reason)), []).append(each)
    errors = [
        DeadError(
            group=name,
            error=error,
            count=len(letters),
            holding=sum(each.holding for each in letters),
            topics=tuple(sorted({each.topic for each in letters})),
            types=tuple(sorted({each.type for each in letters})),
            first_at=letters[-1].died_at,
            last_at=letters[0].died_at,
            newest=letters[0],
        )
        for (name, error), letters in found.items()
    ]
    errors.sort(key=lambda each: (-each.count, each.group, each.error))
    return DeadErrors(errors, len(page.items), page.after is not None)


def error_of(reason: str) -> str:
    """Return the prefix of a reason that letters with the same error share."""
    varies = _VARIES.search(reason)
    end = varies.start() if varies is not None and varies.start() >= _LEAST else len(reason)
    return reason[: min(end, _LONGEST)]


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
    params = ids(store, group, topic) | places_after(after, limit, _FIRST)

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
    topics, found = {each.id: each for each in log.topics()}, dict[Row, Entry]()
    for topic_id, several in groupby(sorted({row[1:4] for row in rows}), key=lambda place: place[0]):
        places = [Position(partition, offset) for _, partition, offset in several]
        for entry in log.at(topics[topic_id], places, bare=True):
            found[topic_id, entry.partition, entry.offset] = entry
    return found
