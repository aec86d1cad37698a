"""Finds rows that break the rules of their tables: Spark checks each row, under its table's column names."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StructType

from penstock.errors import TableAsksMore

from .contract import TableRules
from .kinds import table_at
from .paths import tables_in, type_of
from .routing import BROKEN, ITSELF, REJECTED
from .rules import Planned
from .storage import Location


class HeldRows(NamedTuple):
    """The rules that rows must meet: those of the tables at a path."""

    root: Location
    planned: Planned


def rules_in(root: Location, *, rewrites: bool) -> dict[str, TableRules]:
    """Return the rules of the tables at a path, for those that have some. Raises TableAsksMore."""
    found = {ITSELF if each == root else each.name: table_at(each).rules(rewrites=rewrites) for each in tables_in(root)}
    return {name: rules for name, rules in found.items() if rules != TableRules()}


def with_broken(
    frame: DataFrame,
    held: HeldRows,
    table: Column | None = None,
    columns: Mapping[str, Mapping[str, Column]] | None = None,
    others: Mapping[str, Column] | None = None,
) -> DataFrame:
    """Add a column with the rule that a row breaks, if there are rules. Raises TableAsksMore.

    `table`: the name of each row's table. `columns`: by table, those that the frame lacks; `others`: of other tables.
    """
    found = list[str]()
    for name, rules in held.planned.items():
        if name == REJECTED:
            if rules.checks:
                said = f"constraints ({rules.describe()}), and what it refuses has no other place to go"
                raise TableAsksMore(str(held.root / name), said)
            continue
        added = dict((columns or {}).get(name, others or {}))
        added |= _foreign(frame, held.root / name, added)
        mine = F.lit(True) if table is None else table == _name(held.root, name)
        found.append(f"{BROKEN}{len(found)}")
        shown = frame.withColumns(added) if added else frame
        broken = F.when(mine, F.coalesce(*_faults(shown, held, name)))
        frame = shown.withColumn(found[-1], broken).drop(*added)
    return frame.withColumn(BROKEN, F.coalesce(*map(F.col, found))).drop(*found) if found else frame


def _name(root: Location, folder: str) -> str:
    name = folder if folder == f"~{REJECTED}" else type_of(folder)
    if name is None:
        raise TableAsksMore(str(root / folder), "constraints, and a name too long to tell its rows by")
    return name


def _foreign(frame: DataFrame, path: Location, known: Mapping[str, Column]) -> dict[str, Column]:
    table = table_at(path)
    ours = {name.lower() for name in (*frame.columns, *known, *table.partition_columns())}
    return {
        each.name: F.lit(None).cast(each.dataType)
        for each in StructType.fromJson(table.schema_form())
        if each.name.lower() not in ours
    }


def _faults(frame: DataFrame, held: HeldRows, name: str) -> Iterator[Column]:
    """Yield the fault of a row for each rule. Raises TableAsksMore for a rule that Spark cannot evaluate."""
    rules, path = held.planned[name], held.root if name == ITSELF else held.root / name
    for rule, sql in sorted(rules.checks.items()):
        try:
            with _unlogged():
                holds = F.expr(sql).cast("boolean")
                _ = frame.select(holds).schema
        except PySparkException as exc:
            said = f"a constraint {rule} ({sql}) that Spark cannot evaluate for these rows"
            raise TableAsksMore(str(path), f"{said}: {str(exc).partition(chr(10))[0]}") from exc
        why = F.lit(f"it breaks the constraint {rule} of table {path}: {sql}")
        yield F.when(~F.coalesce(holds, F.lit(False)), why)
    for column in rules.filled:
        if column in frame.columns:
            why = F.lit(f"it has no {column}, which is NOT NULL in table {path}")
            yield F.when(F.col(f"`{column}`").isNull(), why)
    yield F.lit(None).cast("string")


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep Spark from logging an error with its stack: we report it in one sentence."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
