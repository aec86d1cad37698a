"""What is told of a query: one line of a failure, and the lag behind a batch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.pipeline.failure import failure, reason
from penstock.pipeline.progress import source_metrics
from penstock.pipeline.query import Running

OURS = """[STREAM_FAILED] Query [id = 2b73] terminated with exception: Failed: Traceback (most recent
  File "table.py", line 101, in report_removed
    raise RecordsRemoved(topic, describe_pieces(lost))
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
        self.batches = list(batches)
        self.looks = 0

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        self.looks += 1
        return self.batches

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.batches[-1] if self.batches else None


def a_batch(number: int, rows: int, end: list[int], latest: list[int] | None) -> dict[str, Any]:
    reached = {"log": "l", "topic": "orders", "topic_id": 1, "starts": [0] * len(end), "ends": end}
    latest_offset = latest and json.dumps({"topic": "orders", "ends": latest})
    source = {"startOffset": None, "endOffset": json.dumps(reached), "latestOffset": latest_offset}
    return {
        "batchId": number,
        "timestamp": "2026-11-17T12:00:00.250Z",
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
    assert second.lag is None, "Spark does not say it of a batch that was planned before"
    assert running.progress() == []
    query.batches.append(a_batch(2, 0, [9, 8], [9, 8]))
    assert running.progress() == [], "a batch without rows is nothing to tell"


def test_a_batch_that_is_run_again_after_a_crash_has_no_lag_to_tell() -> None:
    batch = a_batch(3, 5, [9], [9])
    batch["sources"][0]["latestOffset"] = "null"  # what Spark reports of a replayed batch
    query: Any = Query(batch)
    (only,) = Running(query).progress()
    assert (only.rows, only.lag) == (5, None)


def test_the_last_batch_is_told_without_a_look_through_all_before_it() -> None:
    query: Any = Query()
    running = Running(query)
    assert running.progress() == []
    for number in range(100):
        query.batches.append(a_batch(number, 5, [number], [number]))
        for expected in ([number], [], []):
            assert [each.batch for each in running.progress()] == expected
        query.batches.append(a_batch(number + 1, 0, [number], [number]))  # nothing came: as Spark reports it
        assert running.progress() == []
    assert query.looks == 0


def test_batches_that_ended_between_two_looks_are_all_told() -> None:
    query: Any = Query(*(a_batch(number, 5, [number], [number]) for number in range(40, 43)))
    running = Running(query)
    assert [each.batch for each in running.progress()] == [40, 41, 42]
    query.batches += [a_batch(43, 5, [9], [9]), a_batch(44, 0, [9], [9]), a_batch(45, 5, [9], [9])]
    assert [each.batch for each in running.progress()] == [43, 45]
    assert running.progress() == []


def test_a_batch_says_up_to_where_the_tables_hold_the_topic() -> None:
    query: Any = Query(a_batch(0, 10, [5, 6], None))
    assert Running(query).progress()[0].ends == {0: 5, 1: 6}


def test_the_metrics_of_a_source_are_those_of_each_topic_and_can_be_read() -> None:
    one = {"log": "l", "topic": "orders", "topic_id": 1, "starts": [2, 0], "ends": [5, 6]}
    two = {"log": "l", "topic": "payments", "topic_id": 2, "starts": [4], "ends": [4]}
    latest = {"topics": [{"topic": "orders", "ends": [1_009, 6]}, {"topic": "payments", "ends": [4]}]}
    source = {"startOffset": None, "endOffset": {"topics": [one, two]}, "latestOffset": latest}
    # Spark 4.0 and 4.1 give what Python makes of the object, later ones its JSON.
    for text in (json.dumps, str):
        said = {name: form and text(form) for name, form in source.items()}
        orders, payments = source_metrics({"sources": [said, {**said, "endOffset": '"files"'}]})
        assert (orders.records, orders.lag, orders.ends) == (9, 1_004, {0: 5, 1: 6})
        assert (payments.records, payments.lag) == (0, 0)
        assert str(orders) == "topic orders: 9 records, 1,004 waiting"
    (again, _) = source_metrics({"sources": [{**said, "startOffset": said["endOffset"], "latestOffset": None}]})
    assert str(again) == "topic orders: 0 records"


@pytest.mark.parametrize(
    ("said", "passes", "words"),
    [
        (OURS, False, "no longer holds"),
        ("x\npenstock.errors.StoreUnreachable: the store p cannot be reached: refused", True, "cannot be reached"),
        ("x\npenstock.errors.StoreLocked: the store p is locked", True, "is locked"),
        ("Task 0 failed: ExecutorLostFailure (executor 3 exited", True, "an executor was lost"),
        ("SparkException: Python worker failed to connect back.", True, "did not start in time"),
        (
            "Traceback ...\npyspark.errors.exceptions.base.PySparkRuntimeError: [CANNOT_OPEN_SOCKET] "
            "Can not open socket: [\"tried to connect to ('127.0.0.1', 1), but … timed out\"].",
            True,
            "did not connect in time",
        ),
        ("SparkException: Python worker exited unexpectedly (crashed)", True, "worker was lost"),
        ("psycopg: Connection refused", True, "refused"),
        ("IO: [libpq] COPY failed: server closed the connection unexpectedly", True, "lost"),
        ("Traceback ...\nModuleNotFoundError: No module named 'penstock'", False, "has no Penstock; install"),
        (THEIRS, False, "division by zero"),
        ("Writing job failed.\nOSError: [Errno 28] No space left on device", True, "no space is left on the"),
        ("DeltaError: Generic LocalFileSystem error: (os error 28)", True, "no space is left on the disk"),
        (
            "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state",
            False,
            "Run the code from before, or begin again, while the old table stays: penstock pipeline reset "
            "FOLDER --rebuild",
        ),
        (
            "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources",
            False,
            "the query is another than the one whose state the checkpoint keeps, and nothing was written",
        ),
        (
            "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected.",
            False,
            "another driver runs the same pipeline into the same folder",
        ),
    ],
)
def test_a_failure_passes_or_not(said: str, passes: bool, words: str) -> None:
    error = failure(said)
    assert error.retryable == passes
    assert words in str(error)
