"""Publish, fail, wait, drain, retain, requeue, skip and discard in any order, held against lists.

The reference knows no rows, lanes or epochs. A key is the list of what it still has to deliver; its head may
wait for a retry or be dead. One group holds its keys then, the other lets them go on. What is requeued last
comes once all has left that waited of its key when the drain began. Now and then another member owns
everything while a person decides, and settles what it has done afterwards.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from penstock.database.database import Database
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Passed
from penstock.log.contract import Keep
from penstock.membership.member import ClusterSettings, Member
from penstock.model.record import Record
from penstock.model.retry import Fixed
from penstock.operate import dead
from penstock.operate.dead import DeadSelection, LetterOutcome, dead_letters
from penstock.operate.lanes import LaneState, lanes
from penstock.operate.retention import retain
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.services.slow import but_the_first
from tests.suites.handling_suite import Seen, publish_values, subscribe

KEYS = ("a", "b", "c")
DELAY = timedelta(seconds=10)
STEPS = 60


@dataclass
class Key:
    """What one group still has to do for a key."""

    queue: list[int] = field(default_factory=list)
    failures: int = 0
    due_ms: int = 0
    dead: list[int] = field(default_factory=list)  # these hold it
    loose: list[int] = field(default_factory=list)  # these are dead too, and hold nothing
    parked: dict[int, tuple[int, int]] = field(default_factory=dict)  # alone: failures, due
    last: list[int] = field(default_factory=list)  # alone, behind what waits
    fresh: int = 0  # of the queue, published since the last drain

    def waits(self) -> list[int]:
        """Return what is written down as waiting."""
        return self.queue[: len(self.queue) - self.fresh]

    def settled_by_another(self, value: int) -> None:
        """Take out what another owner has passed."""
        if self.queue and self.queue[0] == value:
            self.queue.pop(0)
            self.failures = self.due_ms = 0
        elif value in self.last:
            self.last.remove(value)
        else:
            del self.parked[value]

    def drain(self, failing: set[int], now_ms: int, holds: bool) -> list[int]:
        """Return what is handed out in the lane, in order; `alone` gives the rest."""
        out: list[int] = []
        while self.queue and not self.dead and self.due_ms <= now_ms:
            head = self.queue[0]
            out.append(head)
            if head not in failing:
                self.failures = self.due_ms = 0
                self.queue.pop(0)
            elif self.failures == 0:
                self.failures, self.due_ms = 1, now_ms + DELAY // timedelta(milliseconds=1)
            else:
                self.failures = self.due_ms = 0
                (self.dead if holds else self.loose).append(self.queue.pop(0))
        return out

    def drain_last(self, failing: set[int], now_ms: int, waited: list[int]) -> list[int]:
        """Return what was put last and is handed out, now that all of `waited` has left."""
        if set(waited) & set(self.queue):
            return []
        out, self.last = self.last, []
        for value in out:
            if value in failing:
                self.parked[value] = 1, now_ms + DELAY // timedelta(milliseconds=1)
        return out

    def drain_alone(self, failing: set[int], now_ms: int) -> list[int]:
        due = [value for value, (_, due_ms) in self.parked.items() if due_ms <= now_ms]
        for value in due:
            failures, _ = self.parked.pop(value)
            if value in failing and failures:
                self.loose.append(value)
            elif value in failing:
                self.parked[value] = 1, now_ms + DELAY // timedelta(milliseconds=1)
        return due

    def requeue(self) -> None:
        self.queue[:0] = self.dead
        self.parked |= dict.fromkeys(self.loose, (0, 0))
        self.dead, self.loose = [], []

    def requeue_last(self) -> None:
        self.last += self.dead + self.loose
        self.dead, self.loose = [], []

    def skip(self) -> None:
        self.loose += self.dead
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
        engine.outbox.log.retain(engine.outbox.log.topic("events"), Keep(age_ms=0))
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
            keys[key].fresh += len(values)

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
                alone, waited = key.drain_alone(self.failing, now_ms), key.waits()
                in_order = key.drain(self.failing, now_ms, group == "hold")
                last = key.drain_last(self.failing, now_ms, waited)
                key.fresh = 0
                came = [record.value for record in seen if record.key == name]
                assert [value for value in came if value not in alone + last] == in_order, (group, name)
                assert sorted(set(came) & {*alone, *last}) == sorted(alone + last), (group, name)
                before = [came.index(value) for value in waited if value in in_order]
                assert all(came.index(value) > max(before, default=-1) for value in last), (group, name)

    def retain(self) -> None:
        """Delete all that both groups have passed, wherever it waits or lies: no list changes."""
        retain(self.database, clock=self.engine.clock)

    def decide(self) -> None:
        group, name = self.rng.choice(list(self.groups)), self.rng.choice([*KEYS, None])
        picked = DeadSelection(group=group, all=True) if name is None else DeadSelection(group=group, key=name)
        keys = [key for each, key in self.keys[group].items() if name in (None, each)]
        holding, loose = sum(len(key.dead) for key in keys), sum(len(key.loose) for key in keys)
        clock, choice = self.engine.clock, self.rng.choice(["requeue", "requeue", "last", "skip", "discard"])
        if choice == "requeue":
            wanted = LetterOutcome(holding + loose, out_of_order=loose)
            assert dead.requeue(self.database, picked, clock=clock) == wanted
            for key in keys:
                key.requeue()
        elif choice == "last":
            wanted = LetterOutcome(holding + loose, out_of_order=holding + loose)
            assert dead.requeue(self.database, picked, last=True, clock=clock) == wanted
            for key in keys:
                key.requeue_last()
        elif choice == "skip":
            assert dead.skip(self.database, picked, clock=clock) == LetterOutcome(holding)
            for key in keys:
                key.skip()
        else:
            assert dead.discard(self.database, picked, clock=clock) == LetterOutcome(holding + loose)
            for key in keys:
                key.dead, key.loose = [], []

    def decide_beside_an_owner(self) -> None:
        """Another has records out while a person decides; what it settles counts for nothing, or for all."""
        member = Member(self.database, ClusterSettings.load(), self.engine.clock)
        member.join()
        topic = self.engine.outbox.log.topic("events")
        store = GroupStore(self.engine.outbox.store, self.engine.clock, group="hold", topic=topic, owner=member.id)
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
            self.keys["hold"][str(record.key)].settled_by_another(record.value)
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
                (name, holding)
                for name, key in keys.items()
                for holding, some in ((True, key.dead), (False, key.loose))
                for _ in some
            )
            found = lanes(self.database, group=group, clock=self.engine.clock).items
            held = {each.key for each in found if each.state is LaneState.HELD}
            assert held == {name for name, key in keys.items() if key.dead}

    def end(self) -> None:
        """Heal everything, put everything back, and see that all that is left comes, and in order."""
        self.failing = set()
        for group in self.groups:
            dead.requeue(self.database, DeadSelection(group=group, all=True), clock=self.engine.clock)
            for key in self.keys[group].values():
                key.requeue()
        self.engine.clock.advance(DELAY)
        self.drain()
        left = [key.queue or key.parked or key.last for keys in self.keys.values() for key in keys.values()]
        assert not any(left)
        assert (lanes(self.database).items, dead_letters(self.database).items) == ([], [])


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


@pytest.mark.parametrize("seed", but_the_first(range(4)))
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
