"""Rows for an upsert: each with its bucket, and whether it deletes its key."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from penstock.errors import InvalidOption

from ..typed.lake import raw_name
from ..typed.routing import REASON, REJECTED, TABLE
from . import BUCKET, BUCKETS, DELETED

RECORD_KEY = ("key",)
NO_KEY = "the record has no key, so it cannot be upserted"


def with_bucket(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the rows of a pipeline with a bucket and the column `deleted`. Raises InvalidOption.

    A row deletes its key if its own column `deleted` says so; without one, if it has a column `value`, as
    records have, and that is NULL.
    """
    for name in key:
        if name not in frame.columns:
            raise InvalidOption("key", name, f"one of the columns {', '.join(frame.columns)}")
    return frame.withColumn(DELETED, _deletes(frame)).withColumn(BUCKET, _bucket(key))


def raw_rows(events: DataFrame) -> DataFrame:
    """Return the records of a topic, each with its table: that of its type, or of the topic.

    Records without a key are rejected.
    """
    reason = F.when(F.col("key").isNull(), NO_KEY)
    name = raw_name()
    table = F.when(name == REJECTED, f"~{REJECTED}").otherwise(name)
    return events.withColumns({TABLE: F.when(reason.isNotNull(), REJECTED).otherwise(table), REASON: reason})


def by_record_key(rows: DataFrame) -> DataFrame:
    """Return rows of a lake with their buckets, for an upsert by the record's key."""
    return rows.withColumn(BUCKET, _bucket(RECORD_KEY))


def _bucket(key: Sequence[str]) -> Column:
    return F.pmod(F.xxhash64(*[F.col(f"`{name}`") for name in key]), F.lit(BUCKETS)).cast("int")


def _deletes(frame: DataFrame) -> Column:
    if DELETED in frame.columns:
        return F.coalesce(F.col(DELETED), F.lit(False))
    return F.col("value").isNull() if "value" in frame.columns else F.lit(False)
