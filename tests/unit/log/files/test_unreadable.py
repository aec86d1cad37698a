"""A segment that this user may not read: its partition waits with a clear error, the others are served."""

import pickle
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import pytest
from starlette.testclient import TestClient

from penstock import Outbox, Record, gateway
from penstock.database.migrations import migrate
from penstock.delivery.retention import Retention
from penstock.delivery.retention_rule import RetentionSettings
from penstock.errors import FileUnreadable
from penstock.log.contract import Bounds, Compaction, OffsetRange
from penstock.log.files.log import FileLog
from penstock.log.store import Store, open_store
from penstock.testing import FakeClock
from tests.suites.records import a_record
from tests.unit.log.files.unreadable import refuse_segments, refuse_to_read


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Give a closed log of a topic of two partitions with records in both."""
    url = f"{tmp_path}/log/"
    with closing(open_store(url)) as store:
        migrate(store.database)
        store.log.create_topic("events", partitions=2)
        store.log.append("events", [a_record(key=f"k{number}") for number in range(20)])
    return url


@pytest.mark.parametrize("writes", [True, False], ids=["the writer", "a reader"])
def test_an_unreadable_segment_stops_its_partition_alone(
    url: str, writes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(url)) as store:
        before = store.log.all_bounds(store.log.topic("events"))
    assert all(each.end > 0 for each in before.values())
    with monkeypatch.context() as patched, closing(open_store(url)) as store:
        refuse_segments(patched, 0)
        topic = store.log.topic("events")
        if writes:
            store.log.claim()
        assert store.log.all_bounds(topic) == before
        assert store.log.ends(topic) == {number: each.end for number, each in before.items()}
        assert store.log.read_ranges(topic, [OffsetRange(1, *before[1])], max_bytes=1 << 20).entries
        with pytest.raises(FileUnreadable, match=r"^[^/]*/0/0+\.log: .*Permission denied; .*chmod u\+r") as no:
            store.log.read_ranges(topic, [OffsetRange(0, *before[0])], max_bytes=1 << 20)
        assert isinstance(store.log, FileLog)
        assert str(store.log.directory.path) not in str(no.value)  # clients get this text, too
        assert no.value.path.endswith("/0/00000000000000000000.log")
        assert str(pickle.loads(pickle.dumps(no.value))) == str(no.value)
        patched.undo()
        assert store.log.read_ranges(topic, [OffsetRange(0, *before[0])], max_bytes=1 << 20).entries


def test_a_record_for_an_unreadable_partition_is_refused_and_others_are_written(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(url)) as store:
        refuse_segments(monkeypatch, 0)
        outcomes = set()
        for number in range(20):
            try:
                ((position,),) = [store.log.append("events", [a_record(key=f"k{number}")])]
                outcomes.add(position.partition)
            except FileUnreadable:
                outcomes.add(0)
                assert store.log.all_bounds(store.log.topic("events"))[0] != Bounds(0, 0)
        assert outcomes == {0, 1}


@pytest.fixture
def before(url: str) -> dict[int, Bounds]:
    """Give the bounds of both partitions, as another process sees them."""
    with closing(open_store(url)) as store:
        return store.log.all_bounds(store.log.topic("events"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as opened:
        yield opened


@pytest.mark.parametrize("writes", [True, False], ids=["the writer", "a reader"])
def test_a_segment_that_fails_while_it_is_read_stops_its_partition_alone(
    before: dict[int, Bounds], store: Store, writes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.log.topic("events")
    if writes:
        store.log.claim()
    ranges = [OffsetRange(number, *before[number]) for number in (0, 1)]
    refuse_to_read(monkeypatch, 0)
    with pytest.raises(FileUnreadable, match="Input/output error"):
        store.log.read_ranges(topic, ranges, max_bytes=1 << 20)
    found = store.log.read_ranges(topic, ranges[::-1], max_bytes=1 << 20)
    assert found.cut
    assert {each.partition for each in found.entries} == {1}


def test_a_drain_delivers_the_other_partitions_and_says_what_it_cannot_read(
    url: str, before: dict[int, Bounds], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Outbox(url)) as outbox:
        seen = []

        @outbox.handler(group="readers")
        def read(record: Record) -> None:
            seen.append((record.partition, record.offset))

        with monkeypatch.context() as patched:
            refuse_segments(patched, 0)
            with pytest.raises(FileUnreadable):
                outbox.drain()
        assert sorted(seen) == [(1, offset) for offset in range(*before[1])]
        outbox.drain()
        assert sorted(seen) == [(number, offset) for number in (0, 1) for offset in range(*before[number])]


def test_a_worker_goes_on_with_the_groups_of_other_topics(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Outbox(url)) as outbox:
        outbox.log.create_topic("readable", partitions=2)
        outbox.log.append("readable", [a_record(key="k", id="other")], partition=1)
        refuse_segments(monkeypatch, 0)
        stop, served = Event(), Event()

        @outbox.handler(group="a-first")
        def read(record: Record) -> None: ...

        @outbox.handler(group="b-second", topic="readable")
        def serve(record: Record) -> None:
            served.set()

        running = Thread(target=outbox.run, kwargs={"until": stop})
        running.start()
        try:
            assert served.wait(60)
        finally:
            stop.set()
            running.join()


def test_retention_and_upkeep_do_the_other_partitions(
    before: dict[int, Bounds], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.log.claim()
    store.log.compact(store.log.topic("events"), Compaction(0))
    refuse_segments(monkeypatch, 0)
    clock = FakeClock()
    clock.advance(timedelta(days=36_500))
    settings = replace(RetentionSettings.load(), age=timedelta(days=1))
    assert Retention(store, settings, clock).run().deleted == {"events": before[1].end}
    after = store.log.all_bounds(store.log.topic("events"))
    assert after == {0: before[0], 1: Bounds(before[1].end, before[1].end)}


@pytest.mark.parametrize("refuse", [refuse_segments, refuse_to_read])
def test_a_probe_is_told_of_it_until_it_can_be_read_again(
    url: str, refuse: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(refuse)
    with closing(Outbox(url)) as outbox:
        assert isinstance(outbox.log, FileLog)
        probe = TestClient(gateway.app(outbox, worker=False))
        topic = outbox.log.topic("events")
        assert probe.get("/readyz").status_code == 200
        with monkeypatch.context() as patched:
            refuse(patched, 0)
            with pytest.raises(FileUnreadable):
                outbox.log.read("events", 0)
            answer = probe.get("/readyz")
            assert answer.status_code == 503
            ((reason),) = answer.json()["reasons"]
            assert (reason["reason"], "/0/0000" in reason["detail"]) == ("file_unreadable", True)
            assert str(outbox.log.directory.path) not in reason["detail"] + reason["remedy"]
        if refuse is refuse_to_read:  # nobody reads all of a file for a probe: the next read tells
            outbox.log.read_ranges(topic, [OffsetRange(0, 0, 1)], max_bytes=1)
        assert probe.get("/readyz").status_code == 200
