"""kill -9 at every declared point: nothing lost, nothing doubled in the log, deliveries as promised."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from penstock import Record, points
from tests.crash.account import breaches, logged
from tests.crash.children import Child
from tests.crash.programs import TRADED
from tests.crash.store import Store
from tests.services.budget import Budget

ROOMS = {"outbox", "sequencer", "membership", "delivery"}
OTHERS = {"outbox.after_tick"}  # of schedules, which this program has none of: see test_ticks
POINTS = sorted(point for point in points.declared().keys() - OTHERS if point.partition(".")[0] in ROOMS)
SERVED = {"sequencer", "membership"}  # rooms whose points a sequencing service passes, too
MOST_VISITS = 4
Place = tuple[str, int]


class Diary:
    """What handlers wrote down in whichever process, checked against the cursors after each process."""

    def __init__(self, store: Store, path: Path) -> None:
        self.store, self.path = store, path
        self.seen: dict[Place, set[int]] = defaultdict(set)
        self.repeated = 0
        self._read = 0
        self._settled: dict[Place, set[int]] = {}

    def check(self) -> None:
        """Read what the last process wrote: of each key what was not settled, in order, without a gap."""
        lines = self.path.read_text().splitlines()[self._read :] if self.path.exists() else []
        self._read += len(lines)
        given: dict[Place, list[int]] = defaultdict(list)
        for line in lines:
            topic, partition, offset = line.split()
            given[topic, int(partition)].append(int(offset))
        lanes: dict[tuple[Place, str | None], list[int]] = defaultdict(list)
        for row in sorted(logged(self.store), key=lambda row: row.offset):
            place = (row.topic, row.partition)
            if row.offset not in self._settled.get(place, ()):
                lanes[place, row.key].append(row.offset)
        for (place, key), offsets in lanes.items():
            got = [offset for offset in given[place] if offset in offsets]
            assert got == offsets[: len(got)], f"of {key} in {place} {offsets} were due, delivered were {got}"
        for place, got in given.items():
            again = set(got) & self._settled.get(place, set())
            assert not again, f"{again} of {place} were settled and delivered again"
            self.repeated += len(self.seen[place] & set(got))
            self.seen[place] |= set(got)
        self._settled = settled(self.store)
        for place, passed in self._settled.items():
            assert self.seen[place] >= passed, f"{place}: {passed - self.seen[place]} were never delivered"


def kill_once(store: Store, point: str, rng: random.Random, diary: Diary) -> None:
    """Start the program, let it be killed at some visit of a point, and check what it left."""
    serving = point.partition(".")[0] in SERVED and rng.random() < 0.5
    with Child(
        "trade",
        url=store.url,
        seed=rng.randrange(2**32),
        kill_at=point,
        visit=rng.randint(1, MOST_VISITS),
        serving=serving,
        diary=str(diary.path),
    ) as child:
        assert child.is_killed(), f"the program never came to {point} (serving: {serving})"
    assert breaches(store, all_moved=False) == []
    diary.check()


def finish(store: Store, diary: Diary) -> None:
    """Continue in this process to the end; find all once in the log, and delivered at least once."""

    def remember(record: Record) -> None:
        with diary.path.open("a") as pages:
            print(record.topic, record.partition, record.offset, file=pages)

    for topic in TRADED:
        store.outbox.handler(group="reader", topic=topic, id=topic)(remember)
    store.outbox.drain()
    diary.check()
    assert breaches(store) == []
    log = logged(store)
    assert {(row.topic, row.partition, row.offset) for row in log} == {
        (*place, offset) for place, offsets in diary.seen.items() for offset in offsets
    }
    assert len(log) > 0


def test_a_process_killed_at_a_point_loses_and_doubles_nothing(store: Store, tmp_path: Path, budget: Budget) -> None:
    rng, diary = random.Random(budget.base_seed), Diary(store, tmp_path / "diary")
    for point in ("sequencer.before_commit", rng.choice(POINTS)):
        kill_once(store, point, rng, diary)
    finish(store, diary)


@pytest.mark.slow
def test_processes_killed_at_every_point_lose_and_double_nothing(store: Store, tmp_path: Path, budget: Budget) -> None:
    diary = Diary(store, tmp_path / "diary")
    for turn in budget("crash.kill"):
        rng = random.Random(turn.seed)
        for point in rng.sample(POINTS, len(POINTS)):
            kill_once(store, point, rng, diary)
    assert diary.repeated > 0, "no kill fell between a delivery and its settling"
    finish(store, diary)


def settled(store: Store) -> dict[Place, set[int]]:
    """Return what the group has settled in each partition: all below the cursor, and what it passed above."""
    places = (
        'SELECT t.name, c.partition, c."offset", c.passed '
        "FROM penstock_cursor c JOIN penstock_topic t ON t.id = c.topic_id"
    )
    found = {}
    for topic, partition, base, passed in store.rows(places):
        bits = int.from_bytes(bytes.fromhex(passed), "little")
        above = {base + place for place in range(bits.bit_length()) if bits >> place & 1}
        found[topic, partition] = {*range(base), *above}
    return found
