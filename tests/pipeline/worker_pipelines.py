"""Pipelines whose functions run in Spark's workers, which import this module."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from penstock import Record
from penstock.pipeline import pipeline

UNPICKLABLE = Lock()  # as an outbox is, with its connections


@pipeline(source="orders", each_record=True)
def noted(record: Record) -> None:
    """Write down what comes, and when; die where the record says so, the first time."""
    folder = Path(record.value["to"])
    call = [record.key, record.partition, record.offset, record.id, record.redelivered, time.monotonic_ns()]
    with UNPICKLABLE, (folder / f"calls-{os.getpid()}").open("a") as sink:
        sink.write(json.dumps(call) + "\n")
    if record.value.get("dies") and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pipeline(source="orders", each_record=True)
def overtaken(record: Record) -> None:
    """Note what comes; while the first record is handled, retention takes what stands in the value."""
    folder = Path(record.value["to"])
    with UNPICKLABLE, (folder / "handed").open("a") as sink:
        sink.write(json.dumps([record.partition, record.offset]) + "\n")
    if not (folder / "taken").exists():
        (folder / "taken").touch()
        partition, before = record.value["takes"]
        with closing(sqlite3.connect(folder / "shop.db", timeout=30)) as db, db:
            db.execute('DELETE FROM penstock_log WHERE partition = ? AND "offset" < ?', (partition, before))
            db.execute("UPDATE penstock_head SET start_offset = ? WHERE partition = ?", (before, partition))


class _Counting(StatefulProcessor):
    """How often a key was seen, over all batches."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "many LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N803
        many = (self._seen.get() or (0,))[0] + sum(1 for _ in rows)
        self._seen.update((many,))
        yield Row(key=key[0], many=many)

    def close(self) -> None:
        pass


@pipeline(source="orders")
def counted(events: DataFrame) -> DataFrame:
    """Count the records of each key, in a state of its own."""
    grouped = events.where("key IS NOT NULL").selectExpr("CAST(key AS STRING) AS key").groupBy("key")
    return grouped.transformWithState(
        statefulProcessor=_Counting(), outputStructType="key STRING, many LONG", outputMode="Update", timeMode="None"
    )


@pipeline(source="orders")
def deduplicated(events: DataFrame) -> DataFrame:
    """Let each value through once."""
    values = events.selectExpr("CAST(value AS STRING) AS value", "timestamp").where("value IS NOT NULL")
    return values.withWatermark("timestamp", "1 hour").dropDuplicatesWithinWatermark(["value"])
