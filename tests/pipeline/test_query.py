"""What is told of a query: one line of a failure, and the lag behind a batch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.pipeline.query import Running, reason

OURS = """[STREAM_FAILED] Query [id = 2b73] terminated with exception: Failed: Traceback (most recent
  File "table.py", line 101, in report_removed
    raise RecordsRemoved(topic, said(lost))
penstock.errors.RecordsRemoved: topic 'orders' no longer holds partition 2: 0 to before 3
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
"""
THEIRS = """[STREAM_FAILED] Query terminated: Job aborted: Traceback (most recent call last):
  File "pipes.py", line 3, in total
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (OURS, "topic 'orders' no longer holds partition 2: 0 to before 3"),
        (THEIRS, "ZeroDivisionError: division by zero"),
        ("[CANNOT_X] no such thing.\n\tat org.apache", "[CANNOT_X] no such thing."),
    ],
)
def test_a_report_of_spark_becomes_its_telling_line(said: str, line: str) -> None:
    assert reason(said) == line


class Query:
    """A streaming query as far as progress goes."""

    def __init__(self, *batches: dict[str, Any]) -> None:
        self.recentProgress = list(batches)


def a_batch(number: int, rows: int, end: list[int], latest: list[int] | None) -> dict[str, Any]:
    source = {"endOffset": json.dumps({"ends": end}), "latestOffset": latest and json.dumps({"ends": latest})}
    return {
        "batchId": number,
        "numInputRows": rows,
        "processedRowsPerSecond": rows / 2,
        "durationMs": {"triggerExecution": 2_000},
        "sources": [source],
    }


def test_progress_tells_each_batch_once_with_its_lag() -> None:
    query: Any = Query(a_batch(0, 10, [5, 5], [9, 8]), a_batch(1, 7, [9, 8], None))
    running = Running(query)
    first, second = running.progress()
    assert (first.rows, first.lag, first.seconds, first.rows_per_second) == (10, 7, 2.0, 5.0)
    assert second.lag == 0
    assert running.progress() == []
    query.recentProgress.append(a_batch(2, 0, [9, 8], [9, 8]))
    assert running.progress() == [], "a batch without rows is nothing to tell"


def test_a_batch_that_is_run_again_after_a_crash_has_no_lag_to_tell() -> None:
    batch = a_batch(3, 5, [9], [9])
    batch["sources"][0]["latestOffset"] = "null"  # what Spark reports of a replayed batch
    query: Any = Query(batch)
    (only,) = Running(query).progress()
    assert (only.rows, only.lag) == (5, 0)
