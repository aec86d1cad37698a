"""Each defect that a tester found in the lake, through the command line: the table, and those not elsewhere.

| defect | its test through `penstock pipeline lake | reset`, `penstock reconcile` |
|---|---|
| L1 a killed driver dies again of the replayed batch | `test_kill`, `test_upsert_lake`, after each kill |
| L2 a foreign or restored log | `test_refusals`; here: back to the log, and on |
| L3 files that the driver does not see | here |
| L4 a deleted table, a reset cut short | `test_refusals`, `test_lake_command` |
| L5 a locked SQLite file | here |
| L6 every look goes through all batches before | here (its CPU: `bench lake_trickle`) |
| L7 large records | here; 2,100 of a mebibyte in `--long` |
| L8 an address that is no folder of this machine | `test_refusals` |
| L9 comments and properties of another engine | here |
| L10 what `reconcile` must find | `test_reconcile` (its memory: `bench lake_reconcile`) |
| L11 workers without Penstock, their Python | `test_lake_command` |
| L11 tasks as the master has cores, a database that is away | `test_lake_command` |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql.streaming.query import StreamingQuery

from penstock.cli import pipeline_course, pipeline_following
from penstock.pipeline import formats, register
from penstock.pipeline.lake.paths import tables_in
from tests.crash.waiting import wait_until
from tests.pipeline.conftest import Command, Done
from tests.pipeline.hurting import FarSink, SmallBatches
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_continue import places
from tests.services.budget import level_from_environment

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
LONG = level_from_environment() == "long"


class Lake:
    """A lake of a store, and the command that writes it."""

    def __init__(self, store: LogStore, to: Path, spark: Any, command: Command) -> None:
        self.store, self.to, self._spark, self._command = store, to, spark, command
        self.where = ["--url", store.url, "--topic", TOPIC]

    def run(self, *words: str, once: bool = True) -> Done:
        more = ["--once"] if once else []
        return self._command("pipeline", "lake", *self.where, "--to", str(self.to), *more, *words)

    @contextmanager
    def with_format(self, name: str, format: type) -> Iterator[None]:
        """Put a format in the place of ours."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(formats, name, format)
            yield
        register(self._spark)  # other tests have the same session

    def reconciles(self) -> None:
        done = self._command("reconcile", *self.where, "--lake", str(self.to))
        assert done.code == 0, done.out + done.err

    def reset_from_table(self) -> Done:
        return self._command("pipeline", "reset", str(self.to), "--from-table", *self.where, "--yes")


@pytest.fixture
def lake(sqlite_store: LogStore, tmp_path: Path, spark: Any, command: Command) -> Lake:
    return Lake(sqlite_store, tmp_path / "lake", spark, command)


def test_a_restored_log_is_gone_on_with_once_the_tables_are_cut_back_to_it(lake: Lake) -> None:
    lake.store.fill(60)
    assert lake.run().code == 0
    lake.store.run('DELETE FROM penstock_log WHERE "offset" >= 3')  # as the backup has it
    lake.store.run("UPDATE penstock_head SET next_offset = 3 WHERE next_offset > 3")
    lake.store.fill(100)
    refused = lake.run()
    assert refused.code == 1
    assert "another record stands at" in refused.err
    assert "reset --from-table" in refused.err
    cut = lake.reset_from_table()
    assert cut.code == 0, cut.err
    done = lake.run()
    assert done.code == 0, done.err
    assert places(lake.to) == sorted(lake.store.records())
    lake.reconciles()


def test_files_that_the_driver_does_not_see_are_not_committed(lake: Lake) -> None:
    lake.store.fill(60)
    with lake.with_format("DeltaSink", FarSink):
        done = lake.run()
    assert done.code == 1
    assert "the driver and all executors must share the folder" in done.err.splitlines()[-1]
    unreadable = [
        name for table in tables_in(lake.to) for name in DeltaTable(table).file_uris() if not Path(name).exists()
    ]
    assert unreadable == []
    assert lake.run().code == 0
    assert places(lake.to) == sorted(lake.store.records())


def test_a_stream_at_rest_does_not_look_through_the_batches_before(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = {"lastProgress": 0, "recentProgress": 0}

    def counted(name: str) -> property:
        ours: Any = vars(StreamingQuery)[name]

        def get(query: StreamingQuery) -> Any:
            looks[name] += 1
            return ours.fget(query)

        return property(get)

    for name in looks:
        monkeypatch.setattr(StreamingQuery, name, counted(name))
    asked, rows = Event(), 30
    monkeypatch.setattr(pipeline_following, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(pipeline_course, "stop_requested", lambda: _given(asked))
    lake.store.fill(rows)

    def rest() -> None:
        """Wait until all is there, then for a hundred looks more."""
        try:
            wait_until(lambda: tables_in(lake.to) and len(places(lake.to)) == rows, "it is there", seconds=60)
            seen = looks["lastProgress"]
            wait_until(lambda: looks["lastProgress"] > seen + 100, "it has looked", seconds=60)
        finally:
            asked.set()

    waiting = Thread(target=rest)
    waiting.start()
    done = lake.run("--batch-records", "10", once=False)
    waiting.join()
    assert done.out == f"stopped: {rows} rows in 3 batches\n", done.err
    assert looks["lastProgress"] > 100
    assert looks["recentProgress"] <= 3, "at most once for each batch"


@contextmanager
def _given(event: Event) -> Iterator[Event]:
    yield event


def test_large_records_are_read_a_few_at_a_time(lake: Lake) -> None:
    """All of them are one range of the checkpoint, so a batch that does not fit would fail for good."""
    many, large = (2_100, 1 << 20) if LONG else (300, 16 << 10)
    for _ in range(0, many, 100):
        lake.store.fill(100, data=b"x" * large, key="k", type="large")
    if LONG:
        done = lake.run("--batch-records", str(many))
    else:
        with lake.with_format("PenstockSource", SmallBatches):
            done = lake.run()
    assert (done.code, done.out) == (0, f"done: {many:,} rows in 1 batches\n"), done.err
    assert len(places(lake.to)) == many


def test_comments_and_properties_of_another_engine_do_not_stop_a_lake(lake: Lake) -> None:
    lake.store.fill(60)
    assert lake.run().code == 0
    for table in tables_in(lake.to):
        DeltaTable(table).alter.set_column_metadata("type", {"comment": "what happened"})
        DeltaTable(table).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
        DeltaTable(table).alter.set_table_description("ours")
    lake.store.fill(40)
    done = lake.run()
    assert (done.code, done.out) == (0, "done: 40 rows in 1 batches\n"), done.err
    assert places(lake.to) == sorted(lake.store.records())
    lake.reconciles()
