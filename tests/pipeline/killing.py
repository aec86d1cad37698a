"""A sink that dies at a point of a batch's commit, and one that has lost its check: for the crash tests.

Run as a program it is the command line with the first of them: `python -m tests.pipeline.killing WORDS…`.
Where to die is in the environment, as `POINT BATCH`.

`python -m tests.pipeline.killing together LINE…`, each line in JSON, is a driver of several lakes: one that
has come to its point waits there for the others, and then the driver dies. To start one takes long.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
from pyspark.sql.datasource import CaseInsensitiveDict

from penstock import points
from penstock.log.sql.parted_writes import PartedWrites
from penstock.pipeline.lake.identity import ByOffsets
from penstock.pipeline.lake.sink import DeltaSink, DeltaStreamWriter, IcebergSink
from penstock.pipeline.lake.upsert import Order
from penstock.pipeline.source.data_source import PenstockSource
from penstock.pipeline.writeback import BackStreamWriter
from tests.crash.waiting import wait_until

RECORDS_PER_BATCH = 100
WHERE, DRIVER, MEETING = "PENSTOCK_TEST_KILL", "PENSTOCK_TEST_DRIVER", "PENSTOCK_TEST_MEETING"
TOGETHER = "together"
_MEETING_SECONDS = 400.0


class KillingSink(DeltaSink):
    """The sink, in whose commit the driver and all its processes die."""

    def streamWriter(self, schema: Any, overwrite: bool) -> KillingWriter:
        inner: Any = super().streamWriter(schema, overwrite)
        return KillingWriter(inner._target, self.options)


class KillingWriter(DeltaStreamWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        point, _, batch = os.environ.get(WHERE, "").partition(" ")
        if str(batchId) == batch:
            points.arm(point, lambda: end_driver(str(self._target.root)))
        super().commit(messages, batchId)


class UncheckedSink(DeltaSink):
    """The sink, without the look whether a table holds the batch."""

    def streamWriter(self, schema: Any, overwrite: bool) -> UncheckedWriter:
        inner: Any = super().streamWriter(schema, overwrite)
        return UncheckedWriter(inner._target, self.options)


class UncheckedWriter(DeltaStreamWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        checked = ByOffsets.is_in
        ByOffsets.is_in = lambda self, table: False  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            ByOffsets.is_in = checked  # type: ignore[method-assign]


class AppendingSink(DeltaSink):
    """The sink, without the merge: rows of an upsert are only added."""

    def streamWriter(self, schema: Any, overwrite: bool) -> AppendingWriter:
        inner: Any = super().streamWriter(schema, overwrite)
        return AppendingWriter(inner._target, self.options)


class AppendingWriter(DeltaStreamWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        last = Order.last
        Order.last = lambda self, rows: rows  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            Order.last = last  # type: ignore[method-assign]


class KillingIcebergSink(KillingSink, IcebergSink):
    """The same for Iceberg tables."""


class UncheckedIcebergSink(UncheckedSink, IcebergSink):
    """The same for Iceberg tables."""


class AppendingIcebergSink(AppendingSink, IcebergSink):
    """The same for Iceberg tables."""


class KillingBack(PenstockSource):
    """The way back into topics, in whose release the driver and all its processes die."""

    def streamWriter(self, schema: Any, overwrite: bool) -> KillingBackWriter:
        given = dict(self.options)
        known = {name: each for name, each in given.items() if name not in ("kill", "unchecked")}
        inner: Any = PenstockSource(CaseInsensitiveDict(known)).streamWriter(schema, overwrite)
        return KillingBackWriter(inner._target, inner._checkpoint, given)


class KillingBackWriter(BackStreamWriter):
    def __init__(self, target: Any, checkpoint: str, options: dict[str, str]) -> None:
        super().__init__(target, checkpoint)
        self._where = options.get("kill", "")
        self._unchecked = options.get("unchecked") == "true"

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        point, _, batch = (self._where or os.environ.get(WHERE, "")).partition(" ")
        if str(batchId) == batch:
            driver = os.environ.get(DRIVER)
            # Without a driver to end, this process does the release, and it alone dies.
            points.arm(point, points.kill if driver is None else lambda: kill_tree(int(driver)))
        if not self._unchecked:
            super().commit(messages, batchId)
            return
        checked = PartedWrites._is_new
        PartedWrites._is_new = lambda self, tx, write: True  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            PartedWrites._is_new = checked  # type: ignore[method-assign]


def end_driver(lake: str) -> None:
    """End the driver; if it has several lakes, once all stand at their points. None of them goes on."""
    if MEETING in os.environ:
        many, _, folder = os.environ[MEETING].partition(" ")
        place = Path(folder) / place_of(lake)
        place.touch()
        wait_until(
            lambda: len(os.listdir(folder)) == int(many), f"all {many} lakes have come so far", seconds=_MEETING_SECONDS
        )
        while min(os.listdir(folder)) != place.name:  # one of them ends the driver, and all others with it
            signal.pause()
    kill_tree(int(os.environ[DRIVER]))


def place_of(lake: str) -> str:
    """Return by which name a lake is at the meeting."""
    return sha256(lake.encode()).hexdigest()[:16]


def kill_tree(driver: int) -> None:
    """End the driver and all its processes as `kill -9` does, this one last.

    The driver is stopped first, so that it does not act on the death of the others, and killed after them:
    whoever waits for its end finds that nobody writes any more.
    """
    root = psutil.Process(driver)
    root.suspend()
    for process in root.children(recursive=True):
        if process.pid != os.getpid():
            with suppress(psutil.NoSuchProcess):  # it may have gone with the one before
                process.kill()
    root.kill()
    points.kill()


def main(words: list[str]) -> None:
    from penstock.cli import main as command
    from penstock.pipeline import formats
    from tests.pipeline import killing  # Spark's workers import it by this name, not as the program

    vars(formats)["DeltaSink"] = killing.KillingSink
    vars(formats)["IcebergSink"] = killing.KillingIcebergSink
    vars(formats)["PenstockSource"] = killing.KillingBack
    os.environ[DRIVER] = str(os.getpid())
    if words[0] == TOGETHER:
        run_together(command, [json.loads(each) for each in words[1:]])
    else:
        command(words)


def run_together(command: Callable[[list[str]], None], lines: Sequence[list[str]]) -> None:
    """Run commands at the same time, with one Spark."""
    from penstock.pipeline.session import spark_session

    spark: Any = spark_session("together", master="local[2]")

    def run(line: list[str]) -> None:
        # In Java each thread has a session of its own, and this one has none yet.
        type(spark)._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        try:
            command(line)
        finally:  # none of them comes to its end, so that the others need not wait for this one
            os._exit(1)

    threads = [Thread(target=run, args=(line,)) for line in lines]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


if __name__ == "__main__":
    main(sys.argv[1:])
