"""`subscribe`: several topics as one stream, batch by batch, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidOption
from penstock.pipeline.checkpoint import read_batch
from penstock.pipeline.offsets import Range, by_topic
from penstock.pipeline.source.batch import BatchReader
from penstock.pipeline.source.data_source import PenstockSource
from penstock.pipeline.source.options import read_all, read_options
from penstock.pipeline.source.stream import SeveralTopics, StreamReader
from penstock.pipeline.versions import ReadAllAvailable, ReadMaxRows
from tests.pipeline.stores import TOPIC, LogStore
from tests.suites.records import a_record

OTHER, THIRD = "others", "thirds"
Place = tuple[str, int, int]


@pytest.fixture
def two(store: LogStore) -> LogStore:
    """Give a log with a full topic and one with a few records."""
    store.outbox.log.create_topic(OTHER, partitions=2)
    store.fill(200)
    put(store, OTHER, 30)
    return store


def put(store: LogStore, topic: str, many: int) -> None:
    store.outbox.log.append(topic, [a_record(f"k{n}", b"{}") for n in range(many)])


def reader_of(store: LogStore, *topics: str, **options: str) -> SeveralTopics:
    return SeveralTopics(read_all({"url": store.url, "subscribe": ",".join(topics), **options}))


def read(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[Place]:
    """Return the places of the records of a batch."""
    rows = [
        row
        for task in reader.partitions(start, end)
        for batch in reader.read(task)
        for row in batch.select(["topic", "partition", "offset"]).to_pylist()
    ]
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def all_places(store: LogStore, *topics: str) -> list[Place]:
    log = store.outbox.log
    return sorted(
        (name, partition, offset)
        for name in topics
        for partition, bounds in log.all_bounds(log.topic(name)).items()
        for offset in range(bounds.start, bounds.end)
    )


def test_each_record_of_each_topic_comes_once_and_a_batch_has_at_most_its_share(two: LogStore) -> None:
    reader = reader_of(two, TOPIC, OTHER, maxOffsetsPerTrigger="50")
    place, found, sizes = reader.initialOffset(), list[Place](), list[int]()
    while (after := reader.latestOffset(place, reader.getDefaultReadLimit())) != place:
        batch = read(reader, place, after)
        assert read(reader_of(two, TOPIC, OTHER), place, after) == batch, "a replay is the same batch"
        found, place = found + batch, after
        sizes.append(len(batch))
    assert sorted(found) == all_places(two, TOPIC, OTHER)
    assert sizes == [50, 50, 50, 50, 30]


def test_a_batch_says_by_itself_what_it_holds_of_each_topic(two: LogStore, tmp_path: Path) -> None:
    reader = reader_of(two, TOPIC, OTHER)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    two.fill(10)
    second = reader.latestOffset(first, ReadAllAvailable())
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id": "q"}')
    for number, form in enumerate([first, second]):
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(form)}\n")
    counts = [{each.topic: each.count() for each in read_batch(str(tmp_path), n).ranges or ()} for n in range(2)]
    assert counts == [{TOPIC: 200, OTHER: 30}, {TOPIC: 10, OTHER: 0}]
    assert reader.latestOffset(second, ReadAllAvailable()) == second


def test_a_topic_may_come_later_and_one_that_goes_keeps_its_place(two: LogStore) -> None:
    alone = StreamReader(read_options({"url": two.url, "topic": TOPIC}))
    start = alone.latestOffset(alone.initialOffset(), ReadAllAvailable())
    both = reader_of(two, TOPIC, OTHER)
    second = both.latestOffset(start, ReadAllAvailable())
    assert sorted(read(both, start, second)) == all_places(two, OTHER)
    two.outbox.log.create_topic(THIRD, partitions=1)
    put(two, THIRD, 5)
    put(two, OTHER, 7)
    others = reader_of(two, THIRD, TOPIC)
    third = others.latestOffset(second, ReadAllAvailable())
    assert read(others, second, third) == all_places(two, THIRD)
    again = both.latestOffset(third, ReadMaxRows(100))
    assert len(read(both, third, again)) == 7
    assert {topic: sum(Range.from_json(form).ends.values()) for topic, form in by_topic(again).items()} == {
        TOPIC: 200,
        OTHER: 37,
        THIRD: 5,
    }


def test_a_batch_query_reads_all_topics_from_where_each_is_to_begin(two: LogStore) -> None:
    places = json.dumps({OTHER: {"0": -1, "1": -2}})
    options = read_all({"url": two.url, "subscribe": f"{TOPIC},{OTHER}", "startingOffsets": places})
    reader = BatchReader(*options)
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    found = sorted((row["topic"], row["partition"], row["offset"]) for row in rows)
    assert found == [each for each in all_places(two, TOPIC, OTHER) if each[:2] != (OTHER, 0)]


@pytest.mark.parametrize("given", ["", "a,,b", "a, a"])
def test_a_list_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(InvalidOption, match="topics with commas between them"):
        read_all({"url": "sqlite:///x.db", "subscribe": given})


def test_one_name_for_the_topic_is_enough() -> None:
    with pytest.raises(InvalidOption, match="left out when subscribe is given"):
        PenstockSource({"url": "sqlite:///x.db", "subscribe": "a", "topic": "b"}).schema()
    with pytest.raises(InvalidOption, match="offsets as in"):
        read_all({"url": "sqlite:///x.db", "subscribe": "a,b", "startingOffsets": '{"c": {"0": 1}}'})
