"""A pipeline to whose workers things happen; Spark's workers import this module."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.pipeline import pipeline


@pipeline(source="orders")
def fragile(events: DataFrame) -> DataFrame:
    """Let all records through; what a value says happens to the worker that has it."""
    return events.select("partition", "offset", "value").mapInArrow(_obey, "partition INT, offset LONG")


def _obey(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for value in batch.column("value").to_pylist():
            _do(json.loads(value))
        yield batch.select(["partition", "offset"])


def _do(told: dict[str, Any]) -> None:
    if "divide_by" in told:
        _ = 1 / told["divide_by"]
    if "deaths" in told:
        deaths = Path(told["to"]) / "deaths"
        with deaths.open("a") as sink:
            sink.write("x")
        if deaths.stat().st_size <= told["deaths"]:
            os.kill(os.getpid(), signal.SIGKILL)
