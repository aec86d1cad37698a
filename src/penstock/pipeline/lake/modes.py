"""How a pipeline's rows become tables: raw or typed, appended or upserted; also in a rebuild."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from penstock.errors import InvalidOption
from penstock.model.event_types import EventTypes

from ..columns import TIMES
from .broken_rows import HeldRows, rules_in, with_broken
from .routing import BUCKET, DELETED, REASON, REJECTED, TABLE, Layout, Partitioning
from .rules import encoded
from .storage import Location
from .typed.lake import TypedLake, raw_name
from .upsert import BUCKETS

RECORD_KEY = ("key",)
NO_KEY = "the record has no key, so it cannot be upserted"


def _with_bucket(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the rows of a pipeline with a bucket and the column `deleted`. Raises InvalidOption.

    A row deletes its key if its own column `deleted` says so; without one, if it has a `value` that is NULL.
    """
    for name in key:
        if name not in frame.columns:
            raise InvalidOption("key", name, f"one of the columns {', '.join(frame.columns)}")
    deletes = F.col("value").isNull() if "value" in frame.columns else F.lit(False)
    if DELETED in frame.columns:
        deletes = F.coalesce(F.col(DELETED), F.lit(False))
    return frame.withColumn(DELETED, deletes).withColumn(BUCKET, _bucket(key))


def _bucket(key: Sequence[str]) -> Column:
    return F.pmod(F.xxhash64(*[F.col(f"`{name}`") for name in key]), F.lit(BUCKETS)).cast("int")


APPEND, UPSERT, COMPLETE = "append", "upsert", "complete"


@dataclass(frozen=True)
class Mode:
    """How rows get into a table."""

    name: str = APPEND
    types: EventTypes | None = None  # those whose fields are columns
    key: tuple[str, ...] = ()  # the columns that identify rows, for an upsert
    counts: tuple[int, ...] = ()  # the numbers of partitions that the topic has had

    @property
    def upserts(self) -> bool:
        """Whether rows replace others."""
        return self.name != APPEND


def check_lake(mode: Mode, partition_by: str | None = None) -> TypedLake | None:
    """Refuse options that a lake cannot have; return its typed form. Raises InvalidOption, NoColumns."""
    if mode.name == COMPLETE:
        raise InvalidOption("--mode", COMPLETE, f"{APPEND} or {UPSERT}; {COMPLETE} is for a pipeline of your own")
    if mode.key not in ((), RECORD_KEY):
        named = ", ".join(mode.key)
        raise InvalidOption("--key", named, "key, that of the record; other columns are for a pipeline of your own")
    typed = TypedLake.of(mode.types) if mode.types is not None else None
    partitioning = Partitioning.parse(partition_by)
    partitioning.check([*TIMES, *(typed.times() if typed else ())])
    if typed:
        typed.check_parts(partitioning)
    return typed


def lake_rows(events: DataFrame, mode: Mode, root: Location) -> tuple[DataFrame, dict[str, str]]:
    """Return the rows of a lake, and the options of its sink. Raises InvalidOption, NoColumns, TableAsksMore."""
    typed, held = check_lake(mode), _held(root, mode)
    rules = {"rules": encoded(held.planned)}
    if mode.name == APPEND and typed is None:
        rows = with_broken(events, held, raw_name()) if held.planned else events
        return rows, rules | {"tableBy": "type", "tableOtherwise": "topic"}  # Kafka's own tools set no type
    if typed:
        rows, layout = typed.rows(events, held, NO_KEY if mode.upserts else None)
    else:
        reason = F.when(F.col("key").isNull(), NO_KEY)
        table = F.when(raw_name() == REJECTED, f"~{REJECTED}").otherwise(raw_name())
        table = F.when(reason.isNotNull(), REJECTED).otherwise(table)
        rows = events.withColumns({TABLE: table, REASON: reason})
        rows, layout = with_broken(rows, held, F.col(TABLE), others={DELETED: F.col("value").isNull()}), Layout({})
    options = rules | {"layout": msgspec.json.encode(layout).decode()}
    if not mode.upserts:
        return rows, options
    return rows.withColumn(BUCKET, _bucket(RECORD_KEY)), options | _upsert_options(mode, RECORD_KEY)


def function_rows(made: DataFrame, mode: Mode, root: Location) -> tuple[DataFrame, dict[str, str]]:
    """Return the rows of a user's pipeline, and the options of its sink. Raises InvalidOption, TableAsksMore."""
    held, options = _held(root, mode), dict[str, str]()
    if mode.upserts:
        if not mode.key:
            raise InvalidOption("key", "", "given for an upsert: the columns that tell rows apart")
        made, options = _with_bucket(made, mode.key), _upsert_options(mode, mode.key)
    return with_broken(made, held), options | {"rules": encoded(held.planned)}


def _held(root: Location, mode: Mode) -> HeldRows:
    return HeldRows(root, rules_in(root, rewrites=mode.upserts))


def _upsert_options(mode: Mode, key: Sequence[str]) -> dict[str, str]:
    return {
        "mode": UPSERT,
        "key": "/".join(key),
        "partitionCounts": ",".join(str(each) for each in mode.counts),
        "whole": str(mode.name == COMPLETE).lower(),
    }
