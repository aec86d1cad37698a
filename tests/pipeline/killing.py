"""A sink that dies at a point of a batch's commit, and one that has lost its check: for the crash tests.

Run as a program it is the command line with the first of them: `python -m tests.pipeline.killing WORDS…`.
Where to die is in the environment, as `POINT BATCH`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import psutil
from pyspark.sql.datasource import CaseInsensitiveDict

from penstock import points
from penstock.log.sql.parted_writes import PartedWrites
from penstock.pipeline.identity import ByOffsets
from penstock.pipeline.sink import DeltaSink, DeltaStreamWriter, IcebergSink
from penstock.pipeline.source import PenstockSource
from penstock.pipeline.upsert.latest import Order
from penstock.pipeline.write_back import BackStreamWriter

RECORDS_PER_BATCH = 100
WHERE, DRIVER = "PENSTOCK_TEST_KILL", "PENSTOCK_TEST_DRIVER"


class KillingSink(DeltaSink):
    """The sink, in whose commit the driver and all its processes die."""

    def streamWriter(self, schema: Any, overwrite: bool) -> KillingWriter:
        inner: Any = super().streamWriter(schema, overwrite)
        return KillingWriter(inner._target, self.options)


class KillingWriter(DeltaStreamWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        point, _, batch = os.environ.get(WHERE, "").partition(" ")
        if str(batchId) == batch:
            points.arm(point, lambda: kill_tree(int(os.environ[DRIVER])))
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


def kill_tree(driver: int) -> None:
    """End the driver and all its processes as `kill -9` does, this one last."""
    found = [psutil.Process(driver), *psutil.Process(driver).children(recursive=True)]
    for process in found:
        if process.pid != os.getpid():
            with suppress(psutil.NoSuchProcess):  # it may have gone with the one before
                process.kill()
    points.kill()


def main(words: list[str]) -> None:
    from penstock.cli import main as command
    from penstock.pipeline import formats
    from tests.pipeline import killing  # Spark's workers import it by this name, not as the program

    vars(formats)["DeltaSink"] = killing.KillingSink
    vars(formats)["IcebergSink"] = killing.KillingIcebergSink
    vars(formats)["PenstockSource"] = killing.KillingBack
    os.environ[DRIVER] = str(os.getpid())
    command(words)


if __name__ == "__main__":
    main(sys.argv[1:])
