"""The rules that a table has for every row: constraints that others have set, and NOT NULL columns.

Writers must enforce them, for the format does not. Spark checks each row (`broken_rows.py`), and rows that
break a rule go to `rejected`. The query is planned with the rules of that moment; each commit first checks
that the table still has the same rules, and that the files have no NULL where the table allows none. A Delta
table that requires more is refused:

| set by others                            | treatment here                                             |
|------------------------------------------|------------------------------------------------------------|
| `delta.constraints.NAME`, `delta.invariants` | a condition that must be true of each row; NULL is not |
| NOT NULL                                 | a column that is never NULL                                |
| a generated, identity or default value   | refused: only an engine that knows the expression can fill it |
| column mapping                           | refused: files have other names for their columns          |
| append only, change data feed, deletion vectors | refused where files are rewritten, as upserts do    |
| other features of a writer               | refused                                                    |
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from penstock.errors import RowsBreakRules, RulesChanged, TableAsksMore

from .contract import DataFile, Table, TableRules
from .data_files import file_rows
from .delta.log import Protocol
from .storage import storage_of

_CHECK = "delta.constraints."
_NAMED = 7  # from this writer version on, features have names
_HEEDED = {
    "appendOnly",
    "invariants",
    "checkConstraints",
    "changeDataFeed",
    "generatedColumns",
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "v2Checkpoint",
    "variantType",
}
_FILLED_BY_OTHERS = {
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "CURRENT_DEFAULT": "a column with a default",
}
_NOT_REWRITTEN = {"delta.appendOnly": "is append only", "delta.enableChangeDataFeed": "keeps a change data feed"}


def delta_rules(
    path: str, form: Mapping[str, Any], protocol: Protocol, configuration: Mapping[str, str | None], *, rewrites: bool
) -> TableRules:
    """Return the rules of a table with these columns. `rewrites`: whether files are rewritten. Raises TableAsksMore."""
    for what in _unheeded(form, protocol, configuration, rewrites=rewrites):
        raise TableAsksMore(path, what)
    named = {name: sql for name, sql in configuration.items() if name.startswith(_CHECK) and sql is not None}
    checks = {name.removeprefix(_CHECK): sql for name, sql in named.items()}
    for each in form["fields"]:
        if "delta.invariants" in each["metadata"]:
            said = msgspec.json.decode(each["metadata"]["delta.invariants"])
            checks[each["name"]] = said["expression"]["expression"]
    return TableRules(checks, tuple(each["name"] for each in form["fields"] if not each["nullable"]))


def _unheeded(
    form: Mapping[str, Any], protocol: Protocol, configuration: Mapping[str, str | None], *, rewrites: bool
) -> Iterator[str]:
    features = sorted({*(protocol.writerFeatures or ())} - _HEEDED)
    if protocol.minWriterVersion > _NAMED or features:
        named = ", ".join(features) or f"version {protocol.minWriterVersion}"
        yield f"what this writer does not know of Delta's protocol ({named})"
    for each in form["fields"]:
        for name, what in _FILLED_BY_OTHERS.items():
            if name in each["metadata"]:
                yield f"{what} ({each['name']}), whose values only the engine that made it can work out"
    if (configuration.get("delta.columnMapping.mode") or "none") != "none":
        yield "column mapping, by which files name their columns otherwise"
    for name, what in _NOT_REWRITTEN.items():
        if rewrites and (configuration.get(name) or "").lower() == "true":
            yield f"{name}: it {what}, and an upsert writes files anew"
    if rewrites:
        yield from deletion_vectors(protocol)


def deletion_vectors(protocol: Protocol) -> Iterator[str]:
    """Yield the reason against rewriting files of a table, if deleted rows may still be in them."""
    if "deletionVectors" in (protocol.writerFeatures or ()):
        yield "deletion vectors, and files written anew from here would bring deleted rows back"


Planned = Mapping[str, TableRules]  # by table: its folder below the target folder


def encoded(planned: Planned) -> str:
    """Return rules as an option of the sink."""
    return msgspec.json.encode(planned).decode()


def decoded(option: str | None) -> dict[str, TableRules] | None:
    """Return the rules that a query was planned with; None for a query of a user's own."""
    return None if option is None else msgspec.json.decode(option, type=dict[str, TableRules])


def check_rules(
    table: Table, schema: pa.Schema, parts: Iterable[str], planned: TableRules | None, *, rewrites: bool
) -> TableRules:
    """Return the rules for rows of these columns, partitioned by `parts`. Raises RulesChanged, TableAsksMore."""
    rules = table.rules(rewrites=rewrites)
    if planned is not None and rules != planned:
        raise RulesChanged(table.path, rules.describe())
    if planned is None and rules.checks:
        said = f"constraints ({rules.describe()}), which a query of your own does not look at"
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
        with storage_of(each.path).parquet(each.path) as source:
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
