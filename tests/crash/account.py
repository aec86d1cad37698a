"""The account: what the writers committed against what the log holds. Every breach is one sentence.

Its first word names the kind: `lost`, `twice`, `phantom`, `misplaced`, `gap`, `inverted`, `waiting`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple

from penstock.model.partition import key_hash
from tests.crash.store import Store

_LOG = (
    'SELECT t.name, t.partitions, l.partition, l."offset", l.id, l.key, l.value '
    "FROM penstock_log l JOIN penstock_topic t ON t.id = l.topic_id ORDER BY 1, 3, 4"
)
_HEADS = "SELECT t.name, h.partition, h.next_offset FROM penstock_head h JOIN penstock_topic t ON t.id = h.topic_id"


class Logged(NamedTuple):
    """One row of the log."""

    topic: str
    partition: int
    offset: int
    id: str
    key: str | None
    version: int | None
    belongs: bool  # in the partition of its key


def breaches(store: Store, *, appended: Collection[str] = (), all_moved: bool = True) -> list[str]:
    """Compare log and promises; `appended` are ids that went straight into the log."""
    log = logged(store)
    promised = {row[0]: row[1:] for row in store.rows("SELECT id, topic, name, version FROM promised")}
    found = [*_presence(log, set(promised) | set(appended), all_moved), *_places(log, store), *_order(log)]
    found += [
        f"misplaced: {row.id} was promised as {promised[row.id]}"
        for row in log
        if row.id in promised and (row.topic, row.key, row.version) != promised[row.id]
    ]
    if all_moved and (left := store.waiting()):
        found.append(f"waiting: {left} events are still staged")
    return sorted(found)


def kinds(found: list[str]) -> set[str]:
    """Return which kinds of breaches there are."""
    return {sentence.partition(":")[0] for sentence in found}


def logged(store: Store) -> list[Logged]:
    """Return the whole log, by topic, partition and offset."""
    return [
        Logged(
            topic,
            partition,
            offset,
            event_id,
            None if key is None else bytes(key).decode(),
            json.loads(bytes(value)).get("version") if value is not None else None,
            key_hash(event_id if key is None else bytes(key)) % partitions == partition,
        )
        for topic, partitions, partition, offset, event_id, key, value in store.rows(_LOG)
    ]


def versions(store: Store, topic: str, key: str) -> list[int | None]:
    """Return the versions of one key in the order of the log."""
    return [row.version for row in logged(store) if (row.topic, row.key) == (topic, key)]


def _presence(log: list[Logged], expected: set[str], all_moved: bool) -> Iterator[str]:
    seen = Counter(row.id for row in log)
    if all_moved:
        yield from (f"lost: {event_id}" for event_id in sorted(expected - seen.keys()))
    yield from (f"phantom: {event_id}" for event_id in sorted(seen.keys() - expected))
    yield from (f"twice: {event_id} is there {count} times" for event_id, count in seen.items() if count > 1)


def _places(log: list[Logged], store: Store) -> Iterator[str]:
    """Offsets are 0, 1, 2 … to the head, and a key's records are in the key's partition."""
    offsets: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in log:
        offsets[row.topic, row.partition].append(row.offset)
        if not row.belongs:
            yield f"misplaced: {row.id} with key {row.key} in {row.topic}/{row.partition}"
    for topic, partition, next_offset in store.rows(_HEADS):
        given = offsets.pop((topic, partition), [])
        if given != list(range(next_offset)):
            yield f"gap: {topic}/{partition} is to hold 0 to {next_offset - 1} and holds {given}"
    yield from (f"gap: {place} has records and no head" for place in offsets)


def _order(log: list[Logged]) -> Iterator[str]:
    last: dict[tuple[str, str], int] = {}
    for row in log:
        if row.key is None or row.version is None:
            continue
        before = last.get((row.topic, row.key), 0)
        if row.version <= before:
            yield f"inverted: {row.topic} {row.key} has {row.version} after {before}"
        last[row.topic, row.key] = max(before, row.version)
