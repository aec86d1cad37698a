"""Partitions with nothing to do are not looked at in each turn; nothing is missed for it."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest

from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Parked, Passed
from penstock.log.contract import Topic
from penstock.log.sql.log import SqlLog
from penstock.log.store import store_of
from penstock.worker.group import bounds
from penstock.worker.group.delivery import GroupDelivery
from penstock.worker.handler import HandlerTask
from tests.conformance.engines import StoreEngine
from tests.suites.handling_suite import Seen, publish_values, subscribe

PARTITIONS, EVENTS, STEPS = 8, 60, 600


@pytest.fixture(params=["memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Reader:
    """A group that is told where the log has grown, as a running worker is."""

    def __init__(self, engine: StoreEngine) -> None:
        self.engine, outbox = engine, engine.outbox
        outbox.log.create_topic("events", partitions=PARTITIONS)
        self.topic: Topic = outbox.log.topic("events")
        database = open_database(engine.url, Names())
        subscribe(outbox, "g", Seen())
        (subscription,) = outbox._handlers.subscriptions()
        store = GroupStore(store_of(database), engine.clock, group="g", topic=self.topic, owner="me")
        self.group = GroupDelivery(SqlLog(database, engine.clock), store, subscription, engine.clock)
        self.ends = dict(outbox.log.ends(self.topic))
        self._sequencing = engine.another()  # it has no handlers
        engine._change("UPDATE penstock_cursor SET owner_wanted = 'me'")
        self.group.take_wanted(lambda tx: [])

    def told(self) -> bool:
        """Be told where the log has grown, and read on there."""
        grown = []
        for number, end in self.engine.outbox.log.ends(self.topic).items():
            if end > self.ends.get(number, 0):
                self.ends[number] = end
                grown.append(number)
        return self.group.fill(self.ends, grown)

    def publish(self, value: int, key: str) -> None:
        publish_values(self.engine, value, key=key)
        self._sequencing.drain()

    @property
    def awake(self) -> set[int]:
        return {work.number for work in self.group.partitions.awake()}


@pytest.fixture
def reader(engine: StoreEngine) -> Reader:
    made = Reader(engine)
    made.told()
    made.group.settle()
    return made


def test_what_is_done_and_settled_is_at_rest_until_the_log_grows(reader: Reader) -> None:
    assert len(reader.group.partitions) == PARTITIONS
    assert reader.awake == set()
    reader.publish(1, "a")
    reader.told()
    [task] = reader.group.start(10)
    assert reader.awake == {task.place.partition}
    reader.group.finish(task, Passed())
    assert reader.awake == {task.place.partition}, "it is not settled"
    reader.group.settle()
    assert reader.awake == set()


def test_a_look_at_the_log_finds_what_nobody_told_of(reader: Reader) -> None:
    reader.publish(1, "a")
    assert not reader.group.fill(reader.ends)
    assert reader.group.start(10) == []
    assert reader.group.fill(dict(reader.engine.outbox.log.ends(reader.topic)))
    assert len(reader.group.start(10)) == 1


def test_a_partition_that_is_to_be_let_go_is_given_back(reader: Reader) -> None:
    reader.group.let_go()
    reader.group.release_idle()
    assert len(reader.group.partitions) == 0


def test_results_are_awaited_where_the_log_goes_on(reader: Reader) -> None:
    """A hot key: it is read on when some of what is out has ended, so the results may not wait for others."""
    publish_values(reader.engine, *range(bounds.AHEAD + 1), key="hot")
    reader._sequencing.drain()
    reader.told()
    [first] = reader.group.start(1000, bounds.RUN)
    tasks = list(first.run())
    assert len(tasks) == bounds.AHEAD
    assert not reader.group.is_all_out(len(tasks)), "one more is in the log"
    for task in tasks:
        reader.group.finish(task, Passed())
    reader.group.settle()
    reader.told()
    assert len(reader.group.start(1000, bounds.RUN)) == 1
    assert reader.group.is_all_out(1)


def test_what_is_not_looked_at_has_nothing_to_do(reader: Reader) -> None:
    """Whatever happens in whatever order: events, results, retries, settlements."""
    chance = random.Random(7)
    out = list[HandlerTask]()
    done, published = Counter[int](), 0
    group, engine = reader.group, reader.engine
    for step in range(STEPS):
        act = chance.random()
        if act < 0.25 and published < EVENTS:
            reader.publish(published, f"k-{chance.randrange(12)}")
            published += 1
        elif act < 0.5:
            reader.told()
            out += group.start(chance.randrange(1, 5))
        elif act < 0.75 and out:
            task = out.pop(chance.randrange(len(out)))
            if chance.random() < 0.3 and step < STEPS // 2:
                group.finish(task, Parked(engine.clock.now_ms() + 50, task.failures + 1, "again"))
            else:
                group.finish(task, Passed())
                done[task.record.value] += 1
        elif act < 0.9:
            group.settle()
        else:
            engine.clock.advance(timedelta(milliseconds=30))
        for work in group.partitions:
            if work.number not in reader.awake:
                assert work.is_at_rest(reader.ends.get(work.number, 0))
                assert not work.records
    engine.clock.advance(timedelta(seconds=1))
    while (tasks := [*out, *group.start(100)]) or reader.told():
        out = []
        for task in tasks:
            group.finish(task, Passed())
            done[task.record.value] += 1
        group.settle()
    assert done == Counter(range(published))
    assert reader.awake == set()
