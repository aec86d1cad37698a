"""A segment that this user may not read: its partition waits with a clear error, the others are served."""

import pickle
from contextlib import closing
from pathlib import Path

import pytest

from penstock.database.migrations import migrate
from penstock.errors import FileUnreadable
from penstock.log.contract import Bounds, OffsetRange
from penstock.log.store import open_store
from penstock.testing.records import a_record
from tests.unit.log.files.unreadable import refuse_segments


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
        with pytest.raises(
            FileUnreadable, match=r"cannot be read: Permission denied; let .*chmod u\+r /"
        ) as no:
            store.log.read_ranges(topic, [OffsetRange(0, *before[0])], max_bytes=1 << 20)
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
