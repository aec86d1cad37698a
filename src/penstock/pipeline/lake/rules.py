"""The rules that a table has for every row: constraints that others have set, and NOT NULL columns.

Writers must enforce them, for the format does not. Spark checks each row (`broken_rows.py`), and rows that
break a rule go to `rejected`. The query is planned with the rules of that moment; each commit first checks
that the table still has the same rules, and that the files have no NULL where the table allows none.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from penstock.errors import RowsBreakRules, RulesChanged, TableAsksMore

from .contract import DataFile, Table
from .delta.rules import TableRules
from .file_rows import file_rows
from .kinds import table_at
from .paths import tables_in
from .routing import ITSELF
from .storage import Location, location, storage_of

Planned = Mapping[str, TableRules]  # by table: its folder below the target folder


def rules_in(root: Location, *, rewrites: bool) -> dict[str, TableRules]:
    """Return the rules of the tables at a path, for those that have some. Raises TableAsksMore."""
    found = {
        ITSELF if each == root else each.name: table_at(each).rules(rewrites=rewrites)
        for each in tables_in(root)
    }
    return {name: rules for name, rules in found.items() if rules != TableRules()}


def encoded(planned: Planned) -> str:
    """Return rules as an option of the sink."""
    return msgspec.json.encode(planned).decode()


def decoded(option: str | None) -> dict[str, TableRules] | None:
    """Return the rules that a query was planned with; None for a query of a user's own."""
    return None if option is None else msgspec.json.decode(option, type=dict[str, TableRules])


def check_rules(
    table: Table, schema: pa.Schema, parts: Iterable[str], planned: TableRules | None, *, rewrites: bool
) -> TableRules:
    """Return the rules of a table for rows with these columns. `parts`: the partition columns.

    Raises RulesChanged, if the query was planned with other rules; TableAsksMore.
    """
    rules = table.rules(rewrites=rewrites)
    if planned is not None and rules != planned:
        raise RulesChanged(table.path, rules.said())
    if planned is None and rules.checks:
        said = f"constraints ({rules.said()}), which a query of your own does not look at"
        raise TableAsksMore(table.path, said)
    unknown = [name for name in rules.filled if name not in {*schema.names, *parts}]
    unknown += _stricter(table.schema_form(), table.form_of(schema))
    if unknown:
        raise TableAsksMore(table.path, f"NOT NULL for {', '.join(unknown)}, which these rows may lack")
    return rules


def check_filled(table: Table, files: Iterable[DataFile], rules: TableRules) -> None:
    """Check that files have no NULL where a table allows none. Raises RowsBreakRules."""
    for each in files if rules.filled else ():
        missing = [name for name in rules.filled if name in each.part and each.part[name] is None]
        path = location(each.table) / each.name
        with storage_of(path).parquet(path) as source:
            names = [name for name in rules.filled if name in source.schema_arrow.names]
            for rows in file_rows(source, names):
                missing += [name for name in names if rows.column(name).null_count]
        if missing:
            raise RowsBreakRules(f"a row has no {missing[0]}, which is NOT NULL in table {table.path}")


def _stricter(table: Mapping[str, Any], rows: Mapping[str, Any], above: str = "") -> list[str]:
    """Return nested fields that are never NULL in a table, and may be NULL in rows."""
    ours, found = {each["name"]: each for each in rows["fields"]}, list[str]()
    for each in table["fields"]:
        mine = ours.get(each["name"])
        if mine is not None:
            found += [f"{above}{each['name']}"] * (above != "" and mine["nullable"] and not each["nullable"])
            found += _below(each["type"], mine["type"], f"{above}{each['name']}.")
    return found


def _below(table: Any, rows: Any, above: str) -> list[str]:
    if not (isinstance(table, dict) and isinstance(rows, dict)):
        return []
    if table["type"] == "struct":
        return _stricter(table, rows, above)
    found = list[str]()
    for kind, nulls in (("elementType", "containsNull"), ("keyType", ""), ("valueType", "valueContainsNull")):
        if kind in table and kind in rows:
            found += [f"{above}{kind}"] * bool(nulls and rows[nulls] and not table[nulls])
            found += _below(table[kind], rows[kind], f"{above}{kind}.")
    return found
