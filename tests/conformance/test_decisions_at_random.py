"""Publish, fail, wait, drain, retain, requeue and discard in any order, held against lists.

The reference knows no rows, lanes or epochs. A key is the list of what it still has to deliver; its head may
wait for a retry or be dead. One group holds its keys then, the other lets them go on. Now and then another
member owns everything while a person decides, and settles what it has done afterwards.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Passed
from penstock.log.sql.database import Database
from penstock.log.sql.dialects import open_database
from penstock.log.sql.naming import Names
from penstock.membership.member import ClusterSettings, Member
from penstock.model.record import Record
from penstock.model.retry import Fixed
from penstock.operate import dead
from penstock.operate.dead import Outcome, Selection, dead_letters
from penstock.operate.lanes import LaneState, lanes
from penstock.operate.retention import retain
from penstock.testing.handling_suite import Seen, publish_values, subscribe
from tests.conformance.engines import StoreEngine

KEYS = ("a", "b", "c")
DELAY = timedelta(seconds=10)
STEPS = 60


@dataclass
class Key:
    """What one group still has to do for a key."""

    queue: list[int] = field(default_factory=list)
    failures: int = 0
    due_ms: int = 0
    dead: list[int] = field(default_factory=list)
    parked: dict[int, tuple[int, int]] = field(default_factory=dict)  # alone: failures, due

    def held(self, holds: bool) -> bool:
        return holds and bool(self.dead)

    def drain(self, failing: set[int], now_ms: int, holds: bool) -> list[int]:
        """Return what is handed out in the lane, in order; `alone` gives the rest."""
        out: list[int] = []
        while self.queue and not self.held(holds) and self.due_ms <= now_ms:
            head = self.queue[0]
            out.append(head)
            if head not in failing:
                self.failures = self.due_ms = 0
                self.queue.pop(0)
            elif self.failures == 0:
                self.failures, self.due_ms = 1, now_ms + DELAY // timedelta(milliseconds=1)
            else:
                self.failures = self.due_ms = 0
                self.dead.append(self.queue.pop(0))
        return out

    def drain_alone(self, failing: set[int], now_ms: int) -> list[int]:
        due = [value for value, (_, due_ms) in self.parked.items() if due_ms <= now_ms]
        for value in due:
            failures, _ = self.parked.pop(value)
            if value in failing and failures:
                self.dead.append(value)
            elif value in failing:
                self.parked[value] = 1, now_ms + DELAY // timedelta(milliseconds=1)
        return due

    def requeue(self, holds: bool) -> None:
        if holds:
            self.queue[:0] = self.dead
        else:
            self.parked |= dict.fromkeys(self.dead, (0, 0))
        self.dead = []


class Story:
    """One store, its reference, and what may happen."""

    def __init__(self, engine: StoreEngine, database: Database, rng: random.Random) -> None:
        self.engine, self.database, self.rng = engine, database, rng
        self.failing = set[int]()
        self.groups = {"hold": Seen(), "release": Seen()}
        self.keys = {group: {key: Key() for key in KEYS} for group in self.groups}
        engine.outbox.log.create_topic("events", partitions=2)
        for group, seen in self.groups.items():
            retry = Fixed(DELAY, max_retries=1)
            subscribe(engine.outbox, group, seen, retry=retry, on_exhausted=group)
        with engine.connect() as conn:
            conn.execute("UPDATE penstock_topic SET retention_ms = 0")
            conn.commit()
        self._next = 0
        self._logged: dict[tuple[int, int], Record] = {}

    def publish(self) -> None:
        key = self.rng.choice(KEYS)
        values = range(self._next, self._next + self.rng.randint(1, 3))
        self._next = values.stop
        publish_values(self.engine, *values, key=key)
        self.failing |= {value for value in values if self.rng.random() < 0.4}
        for keys in self.keys.values():
            keys[key].queue += values

    def heal(self) -> None:
        self.failing = {value for value in self.failing if self.rng.random() < 0.5}

    def wait(self) -> None:
        self.engine.clock.advance(self.rng.choice([DELAY / 2, DELAY]))

    def drain(self) -> None:
        for seen in self.groups.values():
            seen.clear()
            seen.failing[:] = self.failing
        self.engine.outbox.drain()
        self._remember()
        now_ms = self.engine.clock.now_ms()
        for group, seen in self.groups.items():
            for name, key in self.keys[group].items():
                alone = key.drain_alone(self.failing, now_ms)
                in_order = key.drain(self.failing, now_ms, group == "hold")
                came = [record.value for record in seen if record.key == name]
                assert [value for value in came if value not in alone] == in_order, (group, name)
                assert sorted(value for value in came if value in alone) == sorted(alone), (group, name)

    def retain(self) -> None:
        """Delete all that both groups have passed, wherever it waits or lies: no list changes."""
        retain(self.database, clock=self.engine.clock)

    def decide(self) -> None:
        group, name = self.rng.choice(list(self.groups)), self.rng.choice([*KEYS, None])
        picked = Selection(group=group, all=True) if name is None else Selection(group=group, key=name)
        keys = [key for each, key in self.keys[group].items() if name in (None, each)]
        count = sum(len(key.dead) for key in keys)
        clock = self.engine.clock
        if self.rng.random() < 0.5:
            wanted = Outcome(count, out_of_order=0 if group == "hold" else count)
            assert dead.requeue(self.database, picked, clock=clock) == wanted
            for key in keys:
                key.requeue(group == "hold")
        else:
            assert dead.discard(self.database, picked, clock=clock) == Outcome(count)
            for key in keys:
                key.dead = []

    def decide_beside_an_owner(self) -> None:
        """Another has records out while a person decides; what it settles counts for nothing, or for all."""
        member = Member(self.database, ClusterSettings.load(), self.engine.clock)
        member.join()
        topic = self.engine.outbox.log.topic("events")
        store = GroupStore(self.database, self.engine.clock, group="hold", topic=topic, owner=member.id)
        taken = store.take(member.living)
        out = {}
        for number, owned in taken.items():
            for each in owned.machine.take(self.engine.clock.now_ms(), 1):
                out[number] = each.offset
        self.decide()
        settling = {}
        for number, offset in out.items():
            machine = taken[number].machine
            machine.finish(offset, Passed())
            settlement = machine.settlement()
            assert settlement is not None
            settling[number] = taken[number], settlement
        lost = store.settle(settling) if settling else set()
        for number in settling.keys() - lost:
            record = self._logged[number, out[number]]
            key = self.keys["hold"][str(record.key)]
            assert key.queue.pop(0) == record.value
            key.failures = key.due_ms = 0
        store.release(taken)
        member.leave()

    def _remember(self) -> None:
        """Read what the log holds, before retention deletes it."""
        log = self.engine.outbox.log
        for number in range(2):
            start, _ = log.bounds("events", number)
            self._logged |= {(number, each.offset or 0): each for each in log.read("events", number, start)}

    def check(self) -> None:
        """Hold the listings against the reference."""
        for group, keys in self.keys.items():
            letters = dead_letters(self.database, group=group, limit=1000).items
            assert sorted((each.key, each.holding) for each in letters) == sorted(
                (name, group == "hold") for name, key in keys.items() for _ in key.dead
            )
            found = lanes(self.database, group=group, clock=self.engine.clock).items
            held = {each.key for each in found if each.state is LaneState.HELD}
            assert held == {name for name, key in keys.items() if key.held(group == "hold")}

    def end(self) -> None:
        """Heal everything, put everything back, and see that all that is left comes, and in order."""
        self.failing = set()
        for group in self.groups:
            dead.requeue(self.database, Selection(group=group, all=True), clock=self.engine.clock)
            for key in self.keys[group].values():
                key.requeue(group == "hold")
        self.engine.clock.advance(DELAY)
        self.drain()
        assert not any(key.queue or key.parked for keys in self.keys.values() for key in keys.values())
        assert (lanes(self.database).items, dead_letters(self.database).items) == ([], [])


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = open_database(engine.url, Names())
    yield opened
    opened.close()


@pytest.mark.parametrize("seed", range(4))
def test_any_story_ends_as_the_lists_say(seed: int, engine: StoreEngine, database: Database) -> None:
    story = Story(engine, database, random.Random(seed))
    happenings = [
        *[story.publish] * 3,
        *[story.drain] * 4,
        *[story.wait] * 3,
        story.heal,
        *[story.retain] * 2,
        *[story.decide] * 2,
        *[story.decide_beside_an_owner] * 2,
    ]
    story.publish()
    story.drain()
    for _ in range(STEPS):
        story.rng.choice(happenings)()
        story.check()
    story.end()
