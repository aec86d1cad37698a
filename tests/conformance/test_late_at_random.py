"""Versions of a program with other handlers come and go at random: each record is delivered once."""

import random
from collections import Counter, defaultdict
from datetime import timedelta

import pytest

from penstock import Outbox, Record
from penstock.delivery.verdict import Parked, Passed, Verdict
from penstock.operate.catch_up import passed_over
from tests.conformance.engines import StoreEngine
from tests.conformance.owners import an_owner, stop, work
from tests.services.slow import but_the_first

TYPES = ("a", "b", "c", "d")
STEPS = 60


class Program:
    """All versions of one program: who has handlers for what, and all that they were given."""

    def __init__(self, engine: StoreEngine) -> None:
        self._engine, self.seen = engine, list[Record]()
        self._versions: dict[tuple[str, ...], Outbox] = {}

    def drain(self, types: tuple[str, ...]) -> None:
        """Let the version with these handlers work for a moment."""
        if types not in self._versions:
            self._versions[types] = outbox = self._engine.another()
            for type in types:
                outbox.handler(type, group="app", id=type)(self.seen.append)
        self._versions[types].drain()


@pytest.mark.parametrize("seed", but_the_first(range(3)))
def test_each_record_is_delivered_once_whoever_had_a_handler_when(engine: StoreEngine, seed: int) -> None:
    """Late if it was passed over, and in order of its key if it was not."""
    engine.outbox.log.create_topic("events", partitions=2)
    rng, program = random.Random(seed), Program(engine)
    published, passed = dict[str, str](), set[str]()
    unmet = set[str]()
    for _ in range(STEPS):
        if rng.random() < 0.6:
            with engine.connect() as conn:
                for _ in range(rng.randrange(1, 6)):
                    type, key = rng.choice(TYPES), f"k-{rng.randrange(5)}"
                    id = engine.outbox.publish(conn, type, len(published), key=key)
                    published[id] = type
                    unmet.add(id)
                conn.commit()
        else:
            version = tuple(sorted(rng.sample(TYPES, rng.randrange(1, 5))))
            program.drain(version)
            passed |= {id for id in unmet if published[id] not in version}
            unmet.clear()
    program.drain(TYPES)
    counts = Counter(record.id for record in program.seen)
    assert counts == dict.fromkeys(published, 1)
    assert {record.id for record in program.seen if record.late} == passed
    assert not any(record.redelivered for record in program.seen)
    assert passed_over(engine.outbox, "app") == []
    in_order = defaultdict[str | None, list[int]](list)
    for record in program.seen:
        if not record.late:
            in_order[record.key].append(record.value)
    assert all(values == sorted(values) for values in in_order.values())


class Interrupted:
    """Versions of a program that come and go at random, each for a moment, and stop or die in the middle."""

    def __init__(self, engine: StoreEngine, seed: int) -> None:
        engine.outbox.log.create_topic("events", partitions=2)
        self._engine, self._rng, self._program = engine, random.Random(seed), Program(engine)
        self.published, self.put_off, self.seen = list[str](), list[str](), self._program.seen

    def run(self, *, kills: bool) -> None:
        """Let them come and go, and one that has all handlers be the last."""
        for step in range(STEPS):
            chance, rng = self._rng.random(), self._rng
            version = tuple(sorted(rng.sample(TYPES, rng.randrange(1, 5))))
            if chance < 0.4:
                self._publish()
            elif chance < 0.6:
                self._program.drain(version)
            else:
                self._begin(f"owner-{step}", version, dies=kills and rng.random() < 0.5)
        self._engine.clock.advance(timedelta(minutes=1))
        self._program.drain(TYPES)

    def _publish(self) -> None:
        with self._engine.connect() as conn:
            for value in range(len(self.published), len(self.published) + self._rng.randrange(1, 9)):
                type, key = self._rng.choice(TYPES), f"k-{self._rng.randrange(5)}"
                self.published.append(self._engine.outbox.publish(conn, type, value, key=key))
            conn.commit()
        self._engine.outbox.drain()

    def _begin(self, name: str, version: tuple[str, ...], *, dies: bool) -> None:
        log = self._engine.outbox.log
        owner = an_owner(self._engine, "app", name, *version)
        for _ in range(self._rng.randrange(3)):
            work(owner, self._judge)
            owner.fill(log.ends(log.topic("events")))
            owner.settle()
        if dies:
            work(owner, self._judge)
        else:
            stop(owner)

    def _judge(self, record: Record) -> Verdict | None:
        chance = self._rng.random()
        if chance < 0.2:
            return None
        self.seen.append(record)
        if chance < 0.3:
            self.put_off.append(record.id)
            return Parked(self._engine.clock.now_ms() + 1000, 0, "later", snoozed=True)
        return Passed()


@pytest.mark.parametrize("seed", but_the_first((2, 5, 0)))
def test_also_if_they_stop_in_the_middle(engine: StoreEngine, seed: int) -> None:
    """Unmarked once; again only what was put off, and that is marked."""
    program = Interrupted(engine, seed)
    program.run(kills=False)
    counts = Counter(record.id for record in program.seen)
    assert counts == Counter(program.published) + Counter(program.put_off)
    unmarked = [record.id for record in program.seen if not record.redelivered]
    assert sorted(unmarked) == sorted(program.published)
    assert engine.count("note") == engine.count("lane") == engine.count("lane_entry") == 0
    assert engine.count("dead") == 0
    in_order = defaultdict[str | None, list[int]](list)
    for record in program.seen:
        if not record.late:
            in_order[record.key].append(record.value)
    assert all(values == sorted(values) for values in in_order.values())


@pytest.mark.parametrize("seed", but_the_first((1, 10, 0)))
def test_also_if_they_die(engine: StoreEngine, seed: int) -> None:
    """Each comes, and what comes again is marked."""
    program, met = Interrupted(engine, seed), set[str]()
    program.run(kills=True)
    for record in program.seen:
        assert record.redelivered or record.id not in met, (record.value, record.late)
        met.add(record.id)
    assert met == set(program.published)
    assert engine.count("note") == engine.count("lane") == engine.count("lane_entry") == 0
    assert engine.count("dead") == 0
