"""What others have set on a table is heeded at the commit, or the table is refused by name, untouched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.types import StringType

from penstock.errors import RowsBreakRules, RulesChanged, TableAsksMore
from penstock.pipeline.lake.broken_rows import rules_in
from penstock.pipeline.lake.commit import AppendFiles, Evolve, TablePart, commit
from penstock.pipeline.lake.contract import TableRules
from penstock.pipeline.lake.data_files import FileWriter
from penstock.pipeline.lake.identity import by_application
from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.paths import folder_of, type_of
from penstock.pipeline.lake.routing import BROKEN, OneTable, Partitioning, Routing, routing_of
from penstock.pipeline.lake.rules import Planned, encoded
from penstock.pipeline.lake.sink import begin_iceberg
from penstock.pipeline.lake.upsert import Upsert
from tests.pipeline.test_iceberg import loaded
from tests.pipeline.test_lake import lake_rows
from tests.pipeline.test_table import Query, all_places, data_files, ends
from tests.pipeline.test_upsert_merging import a_part, a_row

SCHEMA = pa.schema([("n", pa.int64()), ("key", pa.binary()), ("at", pa.timestamp("us", tz="UTC"))])


def put(
    to: Path,
    rows: list[dict[str, Any]],
    number: int = 1,
    *,
    by: str | None = None,
    rules: TableRules | None = None,
    committing: AppendFiles | None = None,
) -> None:
    """Bring rows into a table as a batch."""
    cut, table = Partitioning.parse(by), pa.Table.from_pylist(rows, SCHEMA)
    files = FileWriter(to, OneTable(SCHEMA), cut).write(iter(table.to_batches()))
    part = TablePart(to, cut.whole(SCHEMA), tuple(files), tuple(cut.columns(SCHEMA)), rules)
    commit(part, by_application("test", str(number)), committing or AppendFiles())


def never_null(to: Path, *names: str, by: str | None = None) -> None:
    """Make a table some of whose columns are never NULL."""
    cut = Partitioning.parse(by)
    fields = [each.with_nullable(each.name not in names) for each in cut.whole(SCHEMA)]
    DeltaTable.create(to, pa.schema(fields), partition_by=cut.columns(SCHEMA))


def rewritten(table: Path, **changes: Any) -> None:
    """Let the first commit of a table say something else, as other engines would."""
    file = table / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for each in actions:
        if "protocol" in each:
            each["protocol"] |= changes.get("protocol", {})
        if "metaData" in each:
            each["metaData"]["configuration"] |= changes.get("configuration", {})
            form = json.loads(each["metaData"]["schemaString"])
            form["fields"][0]["metadata"] |= changes.get("column", {})
            each["metaData"]["schemaString"] = json.dumps(form)
    file.write_text("".join(f"{json.dumps(each)}\n" for each in actions))


def version(table: Path) -> int:
    return DeltaTable(table).version()


@pytest.mark.parametrize("committing", [AppendFiles(), Evolve()], ids=["raw", "typed"])
@pytest.mark.parametrize(("name", "by"), [("n", None), ("key", None), ("at_day", "day(at)")])
def test_a_row_without_a_value_that_is_never_null_is_refused_with_the_name_of_the_column(
    tmp_path: Path, committing: AppendFiles, name: str, by: str | None
) -> None:
    to = tmp_path / "table"
    never_null(to, name, by=by)
    put(to, [{"n": 1, "key": b"k", "at": 0}], by=by, committing=committing)
    before = version(to)
    with pytest.raises(RowsBreakRules, match=rf"a row has no {name}, which is NOT NULL in table .*table, so"):
        put(to, [{"n": 2, "key": b"k", "at": 0}, {}], 2, by=by, committing=committing)
    assert version(to) == before
    put(to, [{"n": 2, "key": b"k", "at": 0}], 3, by=by, committing=committing)


def test_an_iceberg_table_takes_rows_beside_a_column_of_others_and_is_refused_for_a_required_one(
    tmp_path: Path,
) -> None:
    begin_iceberg(tmp_path, None, None)
    to = tmp_path / "table"
    put(to, [{"n": 1, "key": b"k"}])
    with loaded(to).update_schema() as change:
        change.add_column("note", StringType())
    both: list[AppendFiles] = [AppendFiles(), Evolve()]
    for number, committing in enumerate(both, 2):
        put(to, [{"n": number, "key": b"k"}], number, committing=committing)
    found = loaded(to).scan().to_arrow().sort_by("n")
    assert found.select(["n", "note"]).to_pylist() == [{"n": n, "note": None} for n in (1, 2, 3)]
    with loaded(to).update_schema(allow_incompatible_changes=True) as change:
        change.update_column("key", required=True)
    with pytest.raises(TableAsksMore, match=r"table has required columns \(key\), so nothing was written"):
        put(to, [{"n": 4, "key": b"k"}], 4)
    with pytest.raises(TableAsksMore):
        rules_in(tmp_path, rewrites=False)


@pytest.mark.parametrize("iceberg", [False, True], ids=["delta", "iceberg"])
def test_a_column_that_others_add_is_null_in_upserts_too(tmp_path: Path, iceberg: bool) -> None:
    to, upsert = tmp_path / "table", Upsert(("key",), (1,))
    if iceberg:
        begin_iceberg(tmp_path, None, None)
    commit(a_part(to, [a_row("a", 0), a_row("b", 0)]), by_application("test", "1"), upsert)
    table_at(to).add_columns(pa.schema([("note", pa.string())]), ["note"])
    commit(a_part(to, [a_row("b", 1), a_row("c", 1)]), by_application("test", "2"), upsert)
    (found,) = (pa.Table.from_batches(table_at(to).batches(["key", "note"])),)
    assert sorted(found.to_pylist(), key=str) == [{"key": key, "note": None} for key in (b"a", b"b", b"c")]


def test_a_condition_that_nobody_has_looked_at_refuses_a_query_before_any_table_has_the_batch(tmp_path: Path) -> None:
    to = tmp_path / "lake"
    query = Query(tmp_path / "one", to, tableBy="type")
    query.run(ends(0), ends(10), ["a", "b"])
    DeltaTable(to / "b").alter.add_constraint({"early": "offset < 30"})
    with pytest.raises(TableAsksMore, match=r"lake/b has constraints \(early CHECK \(offset < 30\)\), which a"):
        query.run(ends(10), ends(20), ["a", "b"])
    assert lake_rows(to) == all_places(10)
    held = Query(tmp_path / "one", to, tableBy="type", rules=encoded(rules_in(to, rewrites=False)))
    held.commit(1, held.write(ends(10), ends(20), ["a", "b"]))
    assert lake_rows(to) == all_places(20)
    DeltaTable(to / "a").alter.add_constraint({"late": "offset >= 0"})
    with pytest.raises(RulesChanged, match=r"a was given other .* ran: late CHECK \(offset >= 0\)") as changed:
        held.run(ends(20), ends(25), ["a", "b"])
    assert changed.value.retryable
    DeltaTable(to / "a").alter.drop_constraint("late")
    DeltaTable(to / "b").alter.drop_constraint("early")
    with pytest.raises(RulesChanged, match="ran: none now"):
        held.commit(2, held.write(ends(20), ends(25), ["a", "b"]))
    assert lake_rows(to) == all_places(20)


def test_an_invariant_of_a_column_is_a_condition(tmp_path: Path) -> None:
    to = tmp_path / "table"
    never_null(to)
    rewritten(to, column={"delta.invariants": json.dumps({"expression": {"expression": "n > 3"}})})
    assert table_at(to).rules(rewrites=False) == TableRules({"n": "n > 3"})
    with pytest.raises(TableAsksMore, match=r"n CHECK \(n > 3\)"):
        put(to, [{"n": 1}])


NEWER = {"minReaderVersion": 1, "minWriterVersion": 7}
VECTORS = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"column": {"delta.generationExpression": "1 + 1"}}, r"a generated column \(n\)"),
        ({"column": {"delta.identity.start": 1}}, r"an identity column \(n\)"),
        ({"column": {"CURRENT_DEFAULT": "7"}}, r"a column with a default \(n\)"),
        ({"configuration": {"delta.columnMapping.mode": "name"}}, "column mapping"),
        ({"protocol": NEWER | {"writerFeatures": ["rowTracking", "invariants"]}}, r"protocol \(rowTracking\)"),
        ({"protocol": {"minWriterVersion": 8}}, r"protocol \(version 8\)"),
    ],
    ids=str,
)
def test_a_table_with_what_this_writer_cannot_do_is_refused_by_name_and_at_the_start(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    to = tmp_path / "table"
    never_null(to)
    rewritten(to, **changes)
    for committing in (AppendFiles(), Evolve()):
        with pytest.raises(TableAsksMore, match=what):
            put(to, [{"n": 1}], committing=committing)
    with pytest.raises(TableAsksMore, match=f"table {to} has .*{what}.* write into another folder"):
        rules_in(tmp_path, rewrites=False)
    assert len(list((to / "_delta_log").glob("*.json"))) == 1


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"configuration": {"delta.appendOnly": "true"}}, "delta.appendOnly: it is append only"),
        ({"configuration": {"delta.enableChangeDataFeed": "true"}}, "it keeps a change data feed"),
        ({"protocol": VECTORS | {"writerFeatures": ["deletionVectors"]}}, "deletion vectors"),
    ],
    ids=str,
)
def test_a_table_whose_files_must_stay_takes_new_ones_and_refuses_an_upsert(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    to, upsert = tmp_path / "table", Upsert(("key",), (1,))
    commit(a_part(to, [a_row("a", 0)]), by_application("test", "1"), upsert)
    rewritten(to, **changes)
    before = version(to), data_files(to)
    with pytest.raises(TableAsksMore, match=what):
        commit(a_part(to, [a_row("b", 1)]), by_application("test", "2"), upsert)
    assert version(to) == before[0]
    never_null(tmp_path / "plain")
    rewritten(tmp_path / "plain", **changes)
    put(tmp_path / "plain", [{"n": 1}])
    assert version(tmp_path / "plain") == 1


def test_files_that_may_hold_deleted_rows_are_not_written_anew(tmp_path: Path) -> None:
    to = tmp_path / "table"
    put(to, [{"n": 1}])
    rewritten(to, protocol=VECTORS | {"writerFeatures": ["deletionVectors"]})
    table = table_at(to)
    for act in (lambda: table.compact(1 << 30), lambda: table.replace((), sorted(table.file_names()))):
        with pytest.raises(TableAsksMore, match="would bring deleted rows back"):
            act()


@pytest.mark.parametrize(
    ("inner", "refused"),
    [
        (pa.struct([pa.field("a", pa.int64(), nullable=False)]), True),
        (pa.struct([pa.field("a", pa.int64())]), False),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), True),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), True),
    ],
    ids=str,
)
def test_a_field_inside_a_column_that_is_never_null_refuses_rows_that_may_lack_it(
    tmp_path: Path, inner: pa.DataType, refused: bool
) -> None:
    def nullable(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([each.with_nullable(True) for each in kind])
        if pa.types.is_map(kind):
            return pa.map_(kind.key_type, kind.item_type)
        return pa.list_(pa.field("element", kind.value_type))

    to, schema = tmp_path / "table", pa.schema([("x", nullable(inner))])
    DeltaTable.create(to, pa.schema([("x", inner)]))
    part = TablePart(to, schema, tuple(FileWriter(to, OneTable(schema)).write(iter(()))))
    if not refused:
        commit(part, by_application("test", "1"), Upsertless())
        return
    with pytest.raises(TableAsksMore, match=r"NOT NULL for x\.(a|elementType|valueType), which these rows"):
        commit(part, by_application("test", "1"), Upsertless())


class Upsertless(AppendFiles):
    """Also a batch without rows is brought in."""

    whole = True


def test_a_column_that_others_add_and_that_is_never_null_refuses_the_table(tmp_path: Path) -> None:
    to = tmp_path / "table"
    DeltaTable.create(to, SCHEMA.append(pa.field("note", pa.string(), nullable=False)))
    with pytest.raises(TableAsksMore, match="NOT NULL for note, which these rows may lack"):
        put(to, [{"n": 1}])


def routed(routing: Routing, rows: pa.Table) -> dict[str, list[dict[str, Any]]]:
    (batch,) = rows.to_batches()
    found = dict[str, list[dict[str, Any]]]()
    for table, each in routing.parts(batch):
        assert each.schema == routing.schema_of(table)
        found.setdefault(table, []).extend(each.to_pylist())
    return found


def test_rows_that_break_a_rule_are_routed_to_rejected_beside_a_type_of_that_name() -> None:
    rows = pa.table({"type": ["a", "a", "rejected"], "n": [1, 2, 3], BROKEN: [None, "odd", None]})
    routing = routing_of({"tableBy": "type"}, rows.schema)
    assert routed(routing, rows) == {
        "rejected": [{"type": "a", "n": 2, "reason": "odd"}, {"type": "rejected", "n": 3, "reason": None}],
        "a": [{"type": "a", "n": 1}],
    }
    some = routing_of({"tableBy": "type", "onlyTables": "a"}, rows.schema)
    assert routed(some, rows) == {"a": [{"type": "a", "n": 1}]}
    with pytest.raises(RowsBreakRules, match=r"^odd, so nothing"):
        routed(routing_of({}, rows.schema), rows)


def test_the_type_of_a_folder_is_found_again_unless_its_name_was_cut() -> None:
    for name in ("order.placed", "a/b", ".x", "_y", "50 %~é", "~rejected"):
        assert type_of(folder_of(name)) == name
    assert type_of(folder_of("x" * 300)) is None
    planned: Planned = {"a": TableRules({"x": "n > 1"}, ("n",))}
    assert encoded(planned) == '{"a":{"checks":{"x":"n > 1"},"filled":["n"]}}'
