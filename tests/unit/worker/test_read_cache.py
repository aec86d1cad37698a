"""The read cache: groups at the same place share one read, and each gets what the log holds."""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.log.contract import Chunk, OffsetRange, Topic
from penstock.log.sql.log import SqlLog
from penstock.testing import FakeClock
from penstock.worker import known_log
from penstock.worker.known_log import ReadCache
from tests.conformance.engines import StoreEngine
from tests.suites.records import a_record

ALL = 1 << 30


class CountingLog(SqlLog):
    """A log that notes the ranges it was asked for."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asked: list[tuple[int, int, int]] = []

    def read_ranges(self, topic: Topic, ranges: Any, *, max_bytes: int, bare: bool = False) -> Chunk:
        self.asked += ranges
        return super().read_ranges(topic, ranges, max_bytes=max_bytes, bare=bare)


@pytest.fixture
def log(engine: StoreEngine) -> Iterator[CountingLog]:
    """Give a log with twenty records in each of four partitions."""
    database = open_database(engine.url, Names())
    made = CountingLog(database)
    made.create_topic("t", partitions=4)
    for number in range(4):
        made.append("t", [a_record(data=f"{number}/{n:03}".encode()) for n in range(20)], partition=number)
    yield made
    database.close()


@pytest.fixture
def topic(log: CountingLog) -> Topic:
    return log.topic("t")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cache(log: CountingLog, topic: Topic, clock: FakeClock) -> ReadCache:
    """Give a cache for two groups."""
    made = ReadCache(log, clock)
    made.expect(topic)
    made.expect(topic)
    return made


def places(found: Chunk) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in found.entries]


def test_a_second_group_reads_nothing(cache: ReadCache, log: CountingLog, topic: Topic) -> None:
    ranges = [OffsetRange(0, 0, 10), OffsetRange(1, 5, 8)]
    first = cache.read_ranges(topic, ranges, max_bytes=ALL)
    log.asked.clear()
    second = cache.read_ranges(topic, ranges, max_bytes=ALL)
    assert log.asked == []
    assert places(second) == places(first) == [(0, n) for n in range(10)] + [(1, n) for n in range(5, 8)]
    assert second.entries == first.entries


def test_a_topic_of_one_group_is_not_kept(log: CountingLog, topic: Topic, clock: FakeClock) -> None:
    alone = ReadCache(log, clock)
    alone.expect(topic)
    for _ in range(2):
        alone.read_ranges(topic, [OffsetRange(0, 0, 10)], max_bytes=ALL)
    assert log.asked == [(0, 0, 10)] * 2


def test_what_was_moved_here_is_not_read_by_a_group_that_stands_there(
    log: CountingLog, topic: Topic, clock: FakeClock
) -> None:
    alone = ReadCache(log, clock)
    alone.expect(topic)
    moved = log.read_ranges(topic, [OffsetRange(0, 15, 18)], max_bytes=ALL).entries
    log.asked.clear()
    alone.offer([(topic.id, each) for each in moved] + [(topic.id + 1, moved[0])])
    assert alone.read_ranges(topic, [OffsetRange(0, 15, 20)], max_bytes=ALL).entries == moved
    assert log.asked == []
    assert places(alone.read_ranges(topic, [OffsetRange(0, 14, 20)], max_bytes=ALL)) == [(0, n) for n in range(14, 20)]
    assert log.asked == [(0, 14, 20)]  # it stands before what was moved: all of it is read
    assert len(alone._rows) == len(moved)  # nothing is kept of topics that nobody reads
    alone.clear()
    assert places(alone.read_ranges(topic, [OffsetRange(0, 15, 16)], max_bytes=ALL)) == [(0, 15)]
    assert log.asked == [(0, 14, 20), (0, 15, 16)]


def test_what_was_read_as_the_end_is_read_on(cache: ReadCache, log: CountingLog, topic: Topic) -> None:
    """The first group met the end of the log; since then it has grown."""
    cache.read_ranges(topic, [OffsetRange(0, 0, 100)], max_bytes=ALL)
    log.append("t", [a_record()], partition=0)
    assert places(cache.read_ranges(topic, [OffsetRange(0, 15, 100)], max_bytes=ALL)) == [(0, n) for n in range(15, 20)]
    assert places(cache.read_ranges(topic, [OffsetRange(0, 20, 100)], max_bytes=ALL)) == [(0, 20)]


def test_it_is_thrown_away_after_a_second(cache: ReadCache, log: CountingLog, topic: Topic, clock: FakeClock) -> None:
    for _ in range(2):
        cache.read_ranges(topic, [OffsetRange(0, 0, 10)], max_bytes=ALL)
        clock.advance(timedelta(seconds=1.5))
        cache.tidy()
    assert log.asked == [(0, 0, 10)] * 2


def test_it_holds_no_more_than_so_many_bytes(
    cache: ReadCache, log: CountingLog, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_log, "KEPT_BYTES", 5_000)
    for number in range(4):
        cache.read_ranges(topic, [OffsetRange(number, 0, 20)], max_bytes=ALL)
        assert sum(each.content.size + 140 for each in cache._rows.values()) <= 5_000
    log.asked.clear()
    cache.read_ranges(topic, [OffsetRange(3, 0, 20), OffsetRange(0, 0, 20)], max_bytes=ALL)
    assert log.asked == [(0, 0, 20)]  # the last is kept, the first was thrown away for it


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_kept_the_answer_is_a_beginning_of_the_log_s(
    cache: ReadCache, log: CountingLog, topic: Topic, seed: int, engine: StoreEngine
) -> None:
    """In the order of the ranges, cut as the log cuts, with gaps passed over, and something of each range."""
    chance = random.Random(seed)
    with engine.connect() as conn:
        for number, offset in {(chance.randrange(4), chance.randrange(20)) for _ in range(6)}:
            conn.execute(f'DELETE FROM penstock_log WHERE partition = {number} AND "offset" = {offset}')
        conn.commit()
    for _ in range(40):
        ranges = [
            OffsetRange(number, low, low + chance.randrange(1, 12))
            for number, low in ((number, chance.randrange(20)) for number in chance.sample(range(4), 3))
        ]
        most = chance.choice([1, 100, 400, ALL])
        found = cache.read_ranges(topic, ranges, max_bytes=most)
        whole = places(SqlLog.read_ranges(log, topic, ranges, max_bytes=ALL))
        for number, low, high in ranges:
            mine = [place for place in places(found) if place[0] == number]
            of_log = [place for place in whole if place[0] == number and low <= place[1] < high]
            assert mine == of_log[: len(mine)]
            if not found.cut:
                assert bool(mine) == bool(of_log)
        order = [number for number, _, _ in ranges]
        assert [place[0] for place in places(found)] == sorted((place[0] for place in places(found)), key=order.index)
        if found.cut:  # of what stands before the last one, nothing is missing but at the end of its range
            reached = places(found)[-1][0]
            for number, low, high in ranges[: order.index(reached)]:
                if any(place[0] == number and low <= place[1] < high for place in whole):
                    assert any(place[0] == number for place in places(found))
