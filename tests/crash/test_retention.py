"""kill -9 while records are deleted or erased: nothing that waits is lost, nothing erased comes back."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from penstock import Record, points
from penstock.model.retry import Fixed
from penstock.operate.erase import count_owner, erase
from penstock.operate.reconcile import reconcile
from penstock.operate.retention import retain
from tests.crash.children import Child
from tests.crash.store import Store
from tests.services.slow import but_the_first

TOPIC = "three"
KEYS = [f"k-{number}" for number in range(6)]
LATER = Fixed(timedelta(hours=1), max_retries=100)
TRIMMING = sorted(point for point in points.declared() if point.startswith("retention."))
ERASING = sorted(point for point in points.declared() if point.startswith("erase."))
MARK = "zz-marker-zz"


class Keys:
    """A handler that fails on the keys it is told to, and remembers what it was done with."""

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.done: dict[str, list[int]] = defaultdict(list)

    def __call__(self, record: Record) -> None:
        if record.key in self.failing:
            raise ValueError(f"{record.key} is not wanted yet: {record.value}")
        self.done[str(record.key)].append(record.value["version"])


def parked(store: Store, rounds: int) -> Keys:
    """Publish some rounds of all keys, half of which cannot be done yet."""
    handler = Keys(*KEYS[::2])
    store.outbox.handler(group="reader", topic=TOPIC, id="reader", retry=LATER)(handler)
    for _ in range(rounds):
        store.publish_committed(TOPIC, KEYS)
        store.outbox.drain()
    return handler


def heal(store: Store, handler: Keys) -> None:
    """Let nothing fail any more, and all that waits be due."""
    handler.failing = set()
    store.run("UPDATE penstock_lane SET due_ms = 0")
    store.outbox.drain()


@pytest.mark.parametrize("point", but_the_first(TRIMMING))
def test_a_process_killed_while_it_deletes_loses_nothing_that_waits(store: Store, point: str) -> None:
    """After the kill, and after the next that goes on, each parked key has all its records, in order."""
    handler = parked(store, 4)
    store.run("UPDATE penstock_topic SET retention_ms = 0")
    rng = random.Random(point)
    for _ in range(2):
        with Child("trim", url=store.url, kill_at=point, visit=rng.randint(1, 2)) as child:
            assert child.is_killed(), f"the program never came to {point}"
        payloads = store.rows(
            'SELECT e.partition, e."offset" FROM penstock_lane_entry e WHERE e.id IS NULL AND NOT EXISTS '
            "(SELECT 1 FROM penstock_log l WHERE l.topic_id = e.topic_id AND l.partition = e.partition "
            'AND l."offset" = e."offset")'
        )
        assert payloads == [], "an entry has neither its record in the log nor a copy"
    with closing(store.database()) as database:
        assert reconcile(database, TOPIC, groups=[]).agrees
        retain(database)
        assert reconcile(database, TOPIC, groups=[]).agrees
    assert store.rows("SELECT 1 FROM penstock_log") == []
    store.publish_committed(TOPIC, KEYS)
    heal(store, handler)
    assert handler.done == {key: [1, 2, 3, 4, 5] for key in KEYS}


def test_deleting_beside_workers_and_publishers_loses_nothing(store: Store) -> None:
    """Publish, fail, delete and heal, again and again; every version of every key comes, in order."""
    rng = random.Random(7)
    handler = Keys()
    store.outbox.handler(group="reader", topic=TOPIC, id="reader", retry=LATER)(handler)
    store.run("UPDATE penstock_topic SET retention_ms = 0")
    with closing(store.database()) as database:
        for _ in range(15):
            handler.failing = set(rng.sample(KEYS, 3))
            store.publish_committed(TOPIC, rng.sample(KEYS, 4))
            store.outbox.drain()
            retain(database)
    heal(store, handler)
    versions = store.rows("SELECT name, version FROM counter WHERE topic = ? AND version > 0", TOPIC)
    assert handler.done == {key: list(range(1, last + 1)) for key, last in versions}


@pytest.mark.parametrize("point", but_the_first(ERASING))
def test_a_process_killed_while_it_erases_can_be_run_again(store: Store, point: str) -> None:
    """What is left is found by the next run, and of what was erased nothing is anywhere."""
    handler = Keys(*KEYS[::2])
    store.outbox.handler(group="reader", topic=TOPIC, id="reader", retry=LATER)(handler)
    with store.connection() as conn:
        for number in range(30):
            key = rng_key(number)
            owner = MARK if number % 3 == 0 else "another"
            value = {"version": number, "text": MARK if owner == MARK else ""}
            store.outbox.publish(conn, "t", value, key=key, topic=TOPIC, owner=owner)
        store.outbox.publish(
            conn, "t", MARK, key=MARK, topic=TOPIC, owner=MARK, at=timedelta(hours=1), headers={"h": MARK}
        )
        conn.commit()
    store.outbox.drain()
    before = dict(handler.done)
    visits = 2 if point.endswith("commit") else 1
    with Child("erase_owner", url=store.url, owner=MARK, batch=4, kill_at=point, visit=visits) as child:
        assert child.is_killed(), f"the program never came to {point}"
    with closing(store.database()) as database:
        assert count_owner(database, MARK).count > 0
        erase(database, MARK)
        assert reconcile(database, TOPIC, groups=[]).agrees
    assert list(marked(store)) == []
    heal(store, handler)
    wanted = {key: [n for n in range(30) if rng_key(n) == key and (n % 3 or n in before.get(key, ()))] for key in KEYS}
    assert {key: handler.done[key] for key in KEYS} == wanted


def rng_key(number: int) -> str:
    """Return the key of an event."""
    return KEYS[number * 7 // 2 % len(KEYS)]


def marked(store: Store) -> Iterator[tuple[str, Any]]:
    """Yield every value in every table of ours that holds the marker."""
    query = (
        "SELECT tablename FROM pg_tables WHERE starts_with(tablename, 'penstock_')"
        if store.on_postgres
        else "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'penstock_*'"
    )
    for (table,) in store.rows(query):
        for row in store.rows(f"SELECT * FROM {table}"):
            for value in row:
                text = bytes(value).decode(errors="replace") if isinstance(value, bytes) else str(value)
                if MARK in text:
                    yield table, text
