"""Publish, fail, wait, drain, pause, reset, requeue and discard in any order, held against lists.

The reference knows no rows, lanes or epochs: a key is the list of what it still has to deliver, and each
value knows its offset. After a reset what is kept of that list comes first, then all from the target on,
again. Now and then another member has records out while the group is reset; what it settles then counts for
nothing.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import pytest

from penstock.database.database import Database
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Passed
from penstock.membership.member import ClusterSettings, Member
from penstock.model.retry import Fixed
from penstock.operate import dead, groups
from penstock.operate.dead import DeadSelection, LetterOutcome, dead_letters
from penstock.operate.lanes import LaneState, lanes
from penstock.operate.reset import reset
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.services.slow import but_the_first
from tests.suites.handling_suite import Seen, publish_values, subscribe

KEYS = ("a", "b", "c")
DELAY = timedelta(seconds=10)
DELAY_MS = DELAY // timedelta(milliseconds=1)
STEPS = 80
PARTITIONS = 2


@dataclass
class Key:
    """What the group still has to do for a key."""

    logged: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    failures: int = 0
    due_ms: int = 0
    letters: dict[int, bool] = field(default_factory=dict)  # dead; True: holding
    parked: dict[int, tuple[int, int]] = field(default_factory=dict)  # alone: failures, due

    @property
    def held(self) -> bool:
        return any(self.letters.values())

    def calm(self) -> None:
        self.failures = self.due_ms = 0

    def drain(self, failing: set[int], now_ms: int) -> list[int]:
        out: list[int] = []
        while self.queue and not self.held and self.due_ms <= now_ms:
            head = self.queue[0]
            out.append(head)
            if head not in failing:
                self.calm()
                self.queue.pop(0)
            elif self.failures == 0:
                self.failures, self.due_ms = 1, now_ms + DELAY_MS
            else:
                self.calm()
                self.letters[self.queue.pop(0)] = True
        return out

    def drain_alone(self, failing: set[int], now_ms: int) -> list[int]:
        due = [value for value, (_, due_ms) in self.parked.items() if due_ms <= now_ms]
        for value in due:
            failures, _ = self.parked.pop(value)
            if value in failing and failures:
                self.letters[value] = False
            elif value in failing:
                self.parked[value] = 1, now_ms + DELAY_MS
        return due


class Story:
    """One store, its reference, and what may happen."""

    def __init__(self, engine: StoreEngine, database: Database, rng: random.Random) -> None:
        self.engine, self.database, self.rng = engine, database, rng
        self.failing = set[int]()
        self.seen, self.keys = Seen(), {name: Key() for name in KEYS}
        self.places: dict[int, tuple[int, int]] = {}
        self.passed = [0] * PARTITIONS  # the group has passed all below
        self.paused = False
        engine.outbox.log.create_topic("events", partitions=PARTITIONS)
        subscribe(engine.outbox, "g", self.seen, retry=Fixed(DELAY, max_retries=1))
        self._next = 0

    def publish(self) -> None:
        key = self.rng.choice(KEYS)
        values = range(self._next, self._next + self.rng.randint(1, 3))
        self._next = values.stop
        publish_values(self.engine, *values, key=key)
        self.failing |= {value for value in values if self.rng.random() < 0.4}
        self.keys[key].queue += values

    def heal(self) -> None:
        self.failing = {value for value in self.failing if self.rng.random() < 0.5}

    def wait(self) -> None:
        self.engine.clock.advance(self.rng.choice([DELAY / 2, DELAY]))

    def pause(self) -> None:
        act = groups.resume if self.paused else groups.pause
        assert act(self.database, "g", clock=self.engine.clock)
        self.paused = not self.paused

    def drain(self) -> None:
        self.seen.clear()
        self.seen.failing[:] = self.failing
        self.engine.outbox.drain()
        self.learn()
        now_ms = self.engine.clock.now_ms()
        for name, key in self.keys.items():
            came = [record.value for record in self.seen if record.key == name]
            if self.paused:
                assert came == []
                continue
            alone = key.drain_alone(self.failing, now_ms)
            in_order = key.drain(self.failing, now_ms)
            assert [value for value in came if value not in alone] == in_order, name
            assert sorted(value for value in came if value in alone) == sorted(alone), name
        if not self.paused:
            self.passed = [self.end(number) for number in range(PARTITIONS)]

    def learn(self) -> None:
        """Take note of where the log has put what was published."""
        for number in range(PARTITIONS):
            for record in self.engine.outbox.log.read("events", number):
                if record.value not in self.places:
                    self.keys[str(record.key)].logged.append(record.value)
                self.places[record.value] = number, record.offset or 0

    def end(self, number: int) -> int:
        return max((offset + 1 for at, offset in self.places.values() if at == number), default=0)

    def is_passed(self, value: int) -> bool:
        number, offset = self.places.get(value, (0, -1))
        return 0 <= offset < self.passed[number]

    def decide(self) -> None:
        name = self.rng.choice([*KEYS, None])
        picked = DeadSelection(group="g", all=True) if name is None else DeadSelection(group="g", key=name)
        keys = [key for each, key in self.keys.items() if name in (None, each)]
        count, clock = sum(len(key.letters) for key in keys), self.engine.clock
        if self.rng.random() < 0.6:
            wanted = LetterOutcome(count, out_of_order=sum(map(self.requeue, keys)))
            assert dead.requeue(self.database, picked, clock=clock) == wanted
        else:
            assert dead.discard(self.database, picked, clock=clock) == LetterOutcome(count)
            for key in keys:
                if key.held:
                    key.calm()
                key.letters = {}

    def requeue(self, key: Key) -> int:
        """Put the letters of a key back; return how many come alone."""
        back, alone, was_held = list[int](), list[int](), key.held
        for value in sorted(key.letters):
            if value in key.queue or value in key.parked or not self.is_passed(value):
                continue
            (back if key.letters[value] else alone).append(value)
        key.queue[:0] = back
        key.parked |= dict.fromkeys(alone, (0, 0))
        key.letters = {}
        if was_held:
            key.calm()
        return len(alone)

    def reset(self) -> None:
        drop = self.rng.random() < 0.2
        number = self.rng.randrange(PARTITIONS)
        target = self.rng.randint(0, self.end(number))
        self.expect_reset({number: target}, drop)
        reset(
            self.database, "g", topic="events", to=target, partition=number, drop_parked=drop, clock=self.engine.clock
        )

    def reset_all(self) -> None:
        words: tuple[Literal["earliest", "latest"], ...] = ("earliest", "latest")
        to, drop = self.rng.choice(words), self.rng.random() < 0.2
        ends = {number: self.end(number) for number in range(PARTITIONS)}
        self.expect_reset(ends if to == "latest" else dict.fromkeys(ends, 0), drop)
        reset(self.database, "g", topic="events", to=to, drop_parked=drop, clock=self.engine.clock)

    def expect_reset(self, targets: dict[int, int], drop: bool) -> None:
        for key in self.keys.values():
            self._expect(key, targets, drop)
        for number, target in targets.items():
            self.passed[number] = target

    def _expect(self, key: Key, targets: dict[int, int], drop: bool) -> None:
        mine = [value for value in key.logged if self.places[value][0] in targets]
        if not mine:
            return
        above = {value for value in mine if self.places[value][1] >= targets[self.places[value][0]]}
        kept = [
            value
            for value in key.queue
            if value in self.places and self.is_passed(value) and value not in above and not drop
        ]
        staged = [value for value in key.queue if value not in self.places]
        old_head = key.queue[0] if key.queue else None
        was_held = key.held
        key.queue = kept + [value for value in key.logged if value in above] + staged
        key.letters = {value: holds and not drop and value not in above for value, holds in key.letters.items()}
        key.parked = {value: at for value, at in key.parked.items() if not drop and value not in above}
        if not kept or kept[0] != old_head or (was_held and not key.held):
            key.calm()

    def reset_beside_an_owner(self) -> None:
        """Another has records out while the group is reset; nothing that it settles is written."""
        member = Member(self.database, ClusterSettings.load(), self.engine.clock)
        member.join()
        topic = self.engine.outbox.log.topic("events")
        store = GroupStore(self.engine.outbox.store, self.engine.clock, group="g", topic=topic, owner=member.id)
        taken = store.take(member.living)
        assert not (self.paused and taken)
        settling = {}
        for number, owned in taken.items():
            for each in owned.machine.take(self.engine.clock.now_ms(), 1):
                owned.machine.finish(each.offset, Passed())
            settlement = owned.machine.settlement()
            if settlement is not None:
                settling[number] = owned, settlement
        self.reset_all()
        assert (store.settle(settling) if settling else set()) == settling.keys()
        store.release(taken)
        member.leave()

    def check(self) -> None:
        """Hold the listings against the reference."""
        letters = dead_letters(self.database, group="g", limit=1000).items
        assert sorted((str(each.key), each.offset, each.holding) for each in letters) == sorted(
            (name, self.places[value][1], holds)
            for name, key in self.keys.items()
            for value, holds in key.letters.items()
        )
        found = lanes(self.database, group="g", limit=1000, clock=self.engine.clock).items
        held = {each.key for each in found if each.state is LaneState.HELD}
        assert held == {name for name, key in self.keys.items() if key.held}

    def finish(self) -> None:
        """Heal everything, put everything back, and see that all that is left comes, and in order."""
        self.failing = set()
        if self.paused:
            self.pause()
        dead.requeue(self.database, DeadSelection(group="g", all=True), clock=self.engine.clock)
        for key in self.keys.values():
            self.requeue(key)
        self.engine.clock.advance(DELAY)
        self.drain()
        assert not any(key.queue or key.parked for key in self.keys.values())
        assert (lanes(self.database).items, dead_letters(self.database).items) == ([], [])
        (group,) = groups.groups(self.database, clock=self.engine.clock).items
        assert (group.lag, group.waiting, group.held, group.dead) == (0, 0, 0, 0)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


@pytest.mark.parametrize("seed", but_the_first(range(6)))
def test_any_story_with_resets_ends_as_the_lists_say(seed: int, engine: StoreEngine, database: Database) -> None:
    story = Story(engine, database, random.Random(seed))
    happenings = [
        *[story.publish] * 3,
        *[story.drain] * 5,
        *[story.wait] * 3,
        story.heal,
        story.pause,
        *[story.decide] * 2,
        *[story.reset] * 2,
        story.reset_all,
        story.reset_beside_an_owner,
    ]
    story.publish()
    story.drain()
    for _ in range(STEPS):
        story.rng.choice(happenings)()
        story.check()
    story.finish()
