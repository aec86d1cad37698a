"""An older copy of a checkpoint gives known numbers to other batches: the table stops, and loses none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import BatchDiffers, WriteOutOfOrder
from penstock.pipeline.declared import BatchId
from penstock.pipeline.lake.commit import AppendFiles, Evolve, TablePart, commit
from penstock.pipeline.lake.data_files import OpenFile
from penstock.pipeline.lake.iceberg.catalog import begin
from penstock.pipeline.lake.identity import BatchIdentity, ByEpoch, by_application
from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.storage import Location
from penstock.pipeline.lake.upsert import Upsert
from tests.pipeline.test_table import Query, all_places, ends, rows_of
from tests.pipeline.test_upsert_merging import SCHEMA, a_part, a_row

PLAIN = pa.schema([("window", pa.string())])
KINDS = ["delta", "iceberg"]


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give the path of a table of each kind."""
    if request.param == "iceberg":
        begin(tmp_path / "lake", None, None)
    return tmp_path / "lake" / "windows"


def a_window(table: Location, window: str | None) -> TablePart:
    if window is None:
        return TablePart(table, PLAIN, ())
    file = OpenFile(table, PLAIN)
    file.add(pa.RecordBatch.from_pylist([{"window": window}], schema=PLAIN))
    return TablePart(table, PLAIN, (file.finish(),))


def windows(table: Location) -> list[str]:
    found = [row for batch in table_at(table).batches(["window"]) for row in batch.column(0).to_pylist()]
    return sorted(found)


@pytest.mark.parametrize("committing", [AppendFiles(), Evolve()], ids=["raw", "typed"])
def test_other_content_under_a_known_number_stops_with_both_shown(table: Path, committing: AppendFiles) -> None:
    for number in range(3):
        assert commit(a_window(table, f"w{number}"), ByEpoch("q", number, f"c{number}"), committing)
    assert not commit(a_window(table, "w2"), ByEpoch("q", 2, "c2"), committing), "it was run again"
    for number in (1, 2):
        with pytest.raises(BatchDiffers, match=rf"ends with batch 2 \(made .* now writes batch {number} \(made"):
            commit(a_window(table, "next week"), ByEpoch("q", number, "other"), committing)
    assert windows(table) == ["w0", "w1", "w2"]
    assert commit(a_window(table, "w3"), ByEpoch("q", 3, "c3"), committing)


def test_an_upsert_is_held_to_the_same(tmp_path: Path) -> None:
    upsert, table = Upsert(("key",), (1,)), tmp_path / "counts"
    for number in range(2):
        commit(a_part(table, [a_row("a", number)]), ByEpoch("q", number, f"c{number}"), upsert)
    for number in range(2):
        with pytest.raises(BatchDiffers):
            commit(a_part(table, [a_row("b", number)]), ByEpoch("q", number, "other"), upsert)
    whole = Upsert(("key",), (1,), whole=True)
    with pytest.raises(BatchDiffers):
        commit(TablePart(table, SCHEMA, ()), ByEpoch("q", 1, "other"), whole)


def test_a_batch_without_rows_is_refused_too(table: Path) -> None:
    """Else an older copy runs past the known numbers, and gives out its windows a second time."""
    for number in range(3):
        commit(a_window(table, f"w{number}"), ByEpoch("q", number, f"c{number}"), AppendFiles())
    with pytest.raises(BatchDiffers):
        commit(a_window(table, None), ByEpoch("q", 1, "other"), AppendFiles())
    assert not commit(a_window(table, None), ByEpoch("q", 3, "c3"), AppendFiles())


def test_a_checkpoint_that_was_put_back_stops_the_query(tmp_path: Path) -> None:
    to, checkpoint = tmp_path / "to", tmp_path / "one"
    query = Query(checkpoint, to).keeps_state()
    query.run(ends(0), ends(10))
    shutil.copytree(checkpoint, tmp_path / "copy")
    for n in (10, 20):
        query.run(ends(n), ends(n + 10))
    shutil.rmtree(checkpoint)
    shutil.move(tmp_path / "copy", checkpoint)
    old = Query(checkpoint, to)
    with pytest.raises(BatchDiffers, match="older copy"):
        old.run(ends(10), ends(40))
    assert rows_of(to) == all_places(30)


def nightly(version: int, content: str = "") -> BatchIdentity:
    return by_application("nightly", str(version), content)


def test_a_batch_write_with_a_lower_version_is_refused_by_name(table: Path) -> None:
    for version in (1, 1, 3):
        commit(a_window(table, f"w{version}"), nightly(version), AppendFiles())
    with pytest.raises(WriteOutOfOrder, match=r"application 'nightly' writes version 2 after version 3"):
        commit(a_window(table, "w2"), nightly(2), AppendFiles())
    with pytest.raises(WriteOutOfOrder):
        commit(a_window(table, None), nightly(2), AppendFiles())
    assert windows(table) == ["w1", "w3"]


def test_a_batch_that_a_function_writes_is_known_by_its_content(table: Path) -> None:
    """`each_batch`: the number of an older copy's batch is the last one, and its records are others."""
    options = BatchId("spark/q", 4, "c4").options("totals")
    assert options == {"txnAppId": "spark/q/totals", "txnVersion": "4", "txnContent": "c4"}
    for _ in range(2):
        commit(a_window(table, "w4"), nightly(4, "c4"), AppendFiles())
    with pytest.raises(BatchDiffers, match="of application nightly"):
        commit(a_window(table, "other"), nightly(4, "other"), AppendFiles())
    assert windows(table) == ["w4"]
