"""Appends that wait for nothing, done in the thread of who asks, beside those of the writer's thread."""

import errno
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from penstock.database.migrations import migrate
from penstock.errors import PartitionUnwritable
from penstock.log.contract import Batch, Position, Producer
from penstock.log.entry import Content, content_of
from penstock.log.files.log import FileLog
from penstock.log.files.partition import PartitionLog
from penstock.log.files.writer import LogWriter
from penstock.log.store import Store, open_store
from penstock.model.record import Record
from penstock.operate import topics

TOPIC = "orders"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Give a log in files that does not sync, with a topic that was written to."""
    monkeypatch.setenv("PENSTOCK_FILES_DURABILITY", "os")
    opened = open_store(f"file://{tmp_path}/log")
    migrate(opened.database)
    opened.log.create_topic(TOPIC, partitions=1)
    opened.log.append_all([batch("first")])
    yield opened
    opened.close()


def content(id: str, key: str | None = None) -> Content:
    return content_of(Record(id, key, b"{}", "t", (), 1))


def batch(*ids: str, partition: int | None = None, key: str | None = None) -> Batch:
    return Batch(TOPIC, [content(id, key) for id in ids], partition)


def ids(store: Store, partition: int = 0) -> list[str]:
    return [each.id for each in store.log.read(TOPIC, partition, limit=10_000)]


def test_it_adds_as_the_writer_does(store: Store) -> None:
    assert store.log.append_at_once([batch("a", "b")]) == [[Position(0, 1), Position(0, 2)]]
    assert store.log.append_at_once([batch("c", partition=0)]) == [[Position(0, 3)]]
    assert ids(store) == ["first", "a", "b", "c"]


def test_what_the_disk_refuses_is_told_and_not_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as broken:
        broken.setattr(PartitionLog, "write", refuse)
        with pytest.raises(PartitionUnwritable):
            store.log.append_at_once([batch("a")])
    assert ids(store) == ["first"]


def test_what_has_to_wait_is_left_to_the_writer(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = store.log
    unknown = Batch("others", [content("x")])
    assert log.append_at_once([unknown]) is None
    assert log.append_at_once([batch("a"), unknown]) is None  # all or none
    assert log.append_at_once([batch("a"), batch("b")]) is None  # two of one partition
    produced = Batch(TOPIC, [content("x")], None, Producer("p", 1, 0))
    assert log.append_at_once([produced]) is None
    assert log.append_at_once([Batch(TOPIC, [content(str(each)) for each in range(2_000)])]) is None
    monkeypatch.setenv("PENSTOCK_FILES_DURABILITY", "fsync")
    synced = open_store(f"file://{tmp_path}/synced")
    migrate(synced.database)
    synced.log.create_topic(TOPIC, partitions=1)
    synced.log.append_all([batch("first")])
    assert not synced.log.appends_at_once
    assert synced.log.append_at_once([batch("a")]) is None
    synced.close()
    assert ids(store) == ["first"]


def test_a_topic_that_has_grown_or_is_another_is_not_written_by_what_was_known(store: Store) -> None:
    log = store.log
    topics.grow(store, TOPIC, 2)
    assert log.append_at_once([batch("a", key="k")]) is None
    (placed,) = log.append_all([batch("a", key="k")])
    log.append_all([batch("p0", partition=0), batch("p1", partition=1)])
    assert log.append_at_once([batch("b", key="k")]) == [[Position(placed[0].partition, 2 + _base(placed[0]))]]
    topics.delete(store, TOPIC, force=True)
    assert log.append_at_once([batch("c", key="k")]) is None
    log.create_topic(TOPIC, partitions=1)
    assert log.append_at_once([batch("c", key="k")]) is None
    log.append_all([batch("d", key="k")])
    assert log.append_at_once([batch("e", key="k")]) == [[Position(0, 1)]]
    assert ids(store) == ["d", "e"]


def test_a_topic_that_grows_after_a_record_was_placed_is_not_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the placing and the write another thread may have made it grow."""
    log = store.log
    assert isinstance(log, FileLog)
    files, begin = log.files_of(log.topic(TOPIC)), LogWriter._begin_alone

    def grown_meanwhile(writer: LogWriter) -> bool:
        files.maps += 1
        return begin(writer)

    with monkeypatch.context() as growing:
        growing.setattr(LogWriter, "_begin_alone", grown_meanwhile)
        assert log.append_at_once([batch("a", key="k")]) is None
    assert ids(store) == ["first"]
    log.append_all([batch("a", key="k")])
    assert ids(store) == ["first", "a"]


def _base(place: Position) -> int:
    return place.offset


def test_many_threads_of_both_kinds_lose_and_double_nothing(store: Store) -> None:
    places: list[tuple[str, Position]] = []

    def add(name: str) -> None:
        for number in range(300):
            one = batch(f"{name}-{number:03}", key=name)
            found = store.log.append_at_once([one]) or store.log.append_all([one])
            places.append((one.contents[0].id, found[0][0]))

    threads = [Thread(target=add, args=(f"t{number}",)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    held = ids(store)[1:]
    assert len(held) == 1_200
    assert [id for id, _ in sorted(places, key=lambda each: each[1].offset)] == held
    for number in range(4):
        mine = [id for id in held if id.startswith(f"t{number}-")]
        assert mine == sorted(mine)
