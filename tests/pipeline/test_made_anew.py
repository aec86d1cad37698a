"""A topic of another log, or made anew under its name, is not mixed into tables, whatever the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import AnotherLog
from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.lake.sink import DeltaSink, IcebergSink
from penstock.pipeline.lake.state import reset
from penstock.pipeline.offsets import PLACE, Range
from tests.pipeline import test_table
from tests.pipeline.test_table import Query, all_places, ends

Source = tuple[str, str, int]
OURS, ANEW, FOREIGN = ("log", "orders", 1), ("log", "orders", 7), ("far", "orders", 1)
OTHER = ("log", "refunds", 2)
BY_TYPE, ONE_TABLE = {"tableBy": "type"}, dict[str, str]()


@pytest.fixture(params=[DeltaSink, IcebergSink], ids=["delta", "iceberg"], autouse=True)
def sink(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_table, "DeltaSink", request.param)


def a_query(folder: Path, to: Path, source: Source, options: dict[str, str]) -> Query:
    """Return a query with a checkpoint of its own."""
    query = Query(folder, to, **options)
    query.source = source
    return query


def places(to: Path) -> list[tuple[int, int]]:
    rows = [row for each in tables_in(to) for row in table_at(each).batches(PLACE)]
    return sorted((row["partition"], row["offset"]) for batch in rows for row in batch.to_pylist())


@pytest.mark.parametrize("options", [BY_TYPE, ONE_TABLE], ids=["lake", "table"])
@pytest.mark.parametrize("types", [["a"], ["b"]], ids=["same table", "new table"])
@pytest.mark.parametrize("source", [ANEW, FOREIGN], ids=["made anew", "foreign"])
def test_another_topic_of_the_same_name_is_refused_by_name_ids_and_remedy(
    tmp_path: Path, source: Source, types: list[str], options: dict[str, str]
) -> None:
    to = tmp_path / "lake"
    a_query(tmp_path / "one", to, OURS, options).run(ends(0), ends(10), ["a"])
    for start in (0, 10):  # with as many records as were read, or from there on
        with pytest.raises(AnotherLog) as refused:
            a_query(tmp_path / f"two {start}", to, source, options).run(ends(start), ends(20), types)
        said = str(refused.value)
        assert "topic orders with id 1 of log log" in said
        assert f"topic orders with id {source[2]} of log {source[0]}" in said
        assert ("deleted and made anew" in said) == (source == ANEW)
        assert f"penstock pipeline reset {to} --rebuild" in said
        assert "another folder" in said
    assert places(to) == all_places(10)
    (known,) = Lake(to).sources()
    assert (known.log_id, known.topic_id) == ("log", 1)
    a_query(tmp_path / "three", to, OURS, options).run(ends(10), ends(12), types)
    assert places(to) == all_places(12)


@pytest.mark.parametrize("options", [BY_TYPE, ONE_TABLE], ids=["lake", "table"])
def test_it_is_refused_also_when_another_topic_came_last(tmp_path: Path, options: dict[str, str]) -> None:
    to = tmp_path / "lake"
    a_query(tmp_path / "one", to, OURS, options).run(ends(0), ends(10))
    other = a_query(tmp_path / "two", to, OTHER, options)
    for n in range(12):  # with a checkpoint of the table's own log among them
        other.run(ends(n), ends(n + 1))
    with pytest.raises(
        AnotherLog, match=r"topic orders with (another id or of another log|id 1 of log log), but this is .* id 7 "
    ):
        a_query(tmp_path / "three", to, ANEW, options).run(ends(0), ends(10))
    a_query(tmp_path / "four", to, OURS, options).run(ends(10), ends(11))
    assert len(places(to)) == len(all_places(11)) + len(all_places(12))


@pytest.mark.parametrize("options", [BY_TYPE, ONE_TABLE], ids=["lake", "table"])
def test_a_rebuilt_lake_takes_the_topic_that_was_made_anew(tmp_path: Path, options: dict[str, str]) -> None:
    to = tmp_path / "lake"
    a_query(tmp_path / "one", to, OURS, options).run(ends(0), ends(10))
    reset(to, rebuild=True)
    a_query(tmp_path / "two", to, ANEW, options).run(ends(0), ends(5))
    assert places(to) == all_places(5)
    assert [each.topic_id for each in Lake(to).sources()] == [7]


@pytest.mark.parametrize("options", [BY_TYPE, ONE_TABLE], ids=["lake", "table"])
def test_two_logs_that_a_query_has_joined_itself_stay_together(tmp_path: Path, options: dict[str, str]) -> None:
    """As of one database for each region: the second has its first record later."""
    to, query = tmp_path / "lake", Query(tmp_path / "one", tmp_path / "lake", **options)
    one, two = Range(*OURS, ends(0), ends(5)), Range(*FOREIGN, ends(0), ends(0))
    both = (
        (one, two),
        (one.next(ends(6)), two.next(ends(5))),
        (one.next(ends(6)).next(ends(7)), two.next(ends(5)).next(ends(8))),
    )
    for number, batch in enumerate(both):
        lines = "\n".join(json.dumps(each.to_json()) for each in batch)
        (query.folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{lines}\n")
        query.commit(number, [message for each in batch for message in query.write(each.starts, each.ends)])
    assert sorted({*places(to)}) == all_places(8)
    with pytest.raises(AnotherLog):
        a_query(tmp_path / "two", to, ANEW, options).run(ends(0), ends(10))
