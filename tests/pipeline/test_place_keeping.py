"""The reader as Spark 4.0 and 4.1 call it: they do not say where a batch begins.

What they call, and when, is as `test_versions.py` sees it on the real ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import HistoryTakenBack
from penstock.operate.drop import restored
from penstock.pipeline.checkpoint import read_batch
from penstock.pipeline.source.options import read_all, read_options
from penstock.pipeline.source.stream import PositionKeeper, SeveralTopics, StreamReader
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_several_topics import OTHER, all_places, put, read


class OldSpark:
    """A query of Spark 4.0: its checkpoint lives on, the reader is a new one with every start."""

    def __init__(self, store: LogStore, folder: Path, *, several: bool = False) -> None:
        self._url, self._several, self._folder = store.url, several, folder
        self.kept: list[dict[str, Any]] = []  # the ends of the batches, as in the checkpoint
        self.found: list[tuple[str, int, int]] = []

    def start(self, *, available_now: bool) -> list[int]:
        """Run until nothing is new, from the checkpoint or from the beginning; return the batches' sizes."""
        reader, sizes = self._reader(), list[int]()
        if self.kept:
            assert reader.partitions(self.kept[-1], self.kept[-1]) == []
        until = reader.latestOffset() if available_now else None
        place = self.kept[-1] if self.kept else reader.initialOffset()
        while (after := until or reader.latestOffset()) != place:
            batch = read(reader, place, after)
            self._keep(after)
            ranges = read_batch(str(self._folder), len(self.kept) - 1).ranges or ()
            assert sum(each.count() for each in ranges) == len(batch), "the sink knows what the batch holds"
            self.found, place = self.found + batch, after
            sizes.append(len(batch))
        return sizes

    def _keep(self, end: dict[str, Any]) -> None:
        folder = self._folder / "offsets"
        folder.mkdir(exist_ok=True)
        (self._folder / "metadata").write_text('{"id": "q"}')
        (folder / str(len(self.kept))).write_text(f"v1\n{{}}\n{json.dumps(end)}\n")
        self.kept.append(end)

    def _reader(self) -> PositionKeeper:
        given = {"url": self._url, "maxOffsetsPerTrigger": "60"}
        if self._several:
            return PositionKeeper(SeveralTopics(read_all({**given, "subscribe": f"{TOPIC},{OTHER}"})))
        return PositionKeeper(StreamReader(read_options({**given, "topic": TOPIC})))


def test_batches_keep_to_the_limit_and_go_on_after_a_start(store: LogStore, tmp_path: Path) -> None:
    spark = OldSpark(store, tmp_path)
    store.fill(150)
    assert spark.start(available_now=False) == [60, 60, 30]
    store.fill(70)
    assert spark.start(available_now=False) == [60, 10]
    assert spark.start(available_now=False) == []
    assert sorted(spark.found) == all_places(store, TOPIC)


def test_a_run_that_ends_by_itself_takes_one_batch_and_the_next_goes_on(sqlite_store: LogStore, tmp_path: Path) -> None:
    spark = OldSpark(sqlite_store, tmp_path)
    sqlite_store.fill(100)
    assert spark.start(available_now=True) == [60]
    assert spark.start(available_now=True) == [40]
    assert spark.start(available_now=True) == []
    sqlite_store.outbox.log.grow(TOPIC, 16)
    sqlite_store.fill(100)
    assert spark.start(available_now=False) == [60, 40]
    sqlite_store.fill(50)
    assert spark.start(available_now=True) == [50]
    assert sorted(spark.found) == all_places(sqlite_store, TOPIC)


def test_a_new_query_begins_where_it_was_asked_first(sqlite_store: LogStore, tmp_path: Path) -> None:
    options = read_options({"url": sqlite_store.url, "topic": TOPIC, "startingOffsets": "latest"})
    reader = PositionKeeper(StreamReader(options))
    sqlite_store.fill(10)
    end = reader.latestOffset()
    sqlite_store.fill(10)
    assert reader.initialOffset() == end
    assert len(read(reader, end, reader.latestOffset())) == 10


def test_several_topics(sqlite_store: LogStore, tmp_path: Path) -> None:
    spark = OldSpark(sqlite_store, tmp_path, several=True)
    sqlite_store.outbox.log.create_topic(OTHER, partitions=2)
    for now in (True, False, True, False):
        sqlite_store.fill(30)
        put(sqlite_store, OTHER, 10)
        assert sum(spark.start(available_now=now)) == 40
    assert sorted(spark.found) == all_places(sqlite_store, TOPIC, OTHER)


@pytest.mark.parametrize("now", [True, False])
def test_a_checkpoint_of_another_history_is_refused(sqlite_store: LogStore, tmp_path: Path, now: bool) -> None:
    spark = OldSpark(sqlite_store, tmp_path)
    sqlite_store.fill(100)
    spark.start(available_now=now)
    restored(sqlite_store.outbox)
    sqlite_store.fill(20)
    with pytest.raises(HistoryTakenBack):
        spark.start(available_now=now)
