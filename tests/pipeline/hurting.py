"""Formats whose tasks meet what may happen to them on a cluster or beside others: for tests by the command.

Spark's workers import them by name; a test puts one in the place of ours for the run of a command.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.pipeline.lake.sink import DeltaSink, DeltaStreamWriter
from penstock.pipeline.source.data_source import PenstockSource
from penstock.pipeline.source.fetch import sqlite
from penstock.pipeline.source.options import read_all
from penstock.pipeline.source.stream import StreamReader

SMALL_BATCH_BYTES = 1 << 20
HOLDER = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("PRAGMA locking_mode = EXCLUSIVE")
conn.execute("BEGIN EXCLUSIVE")
conn.execute("UPDATE penstock_head SET start_offset = start_offset")
conn.execute("COMMIT")
print("held", flush=True)
sys.stdin.readline()
"""


class FarSink(DeltaSink):
    """The sink, of whose files one stays on the executor's own disk."""

    def streamWriter(self, schema: Any, overwrite: bool) -> FarWriter:
        inner: Any = super().streamWriter(schema, overwrite)
        return FarWriter(inner._target, self.options)


class FarWriter(DeltaStreamWriter):
    def write(self, iterator: Iterator[Any]) -> Any:
        message: Any = super().write(iterator)
        file = Path(message.files[-1].table) / message.files[-1].name
        file.rename(file.with_suffix(".elsewhere"))
        return message


class SmallBatches(PenstockSource):
    """The source, which may hold a mebibyte at a time, and says so when it holds more."""

    def streamReader(self, schema: Any) -> SmallBatchReader:
        return SmallBatchReader(*read_all(self.options))


class SmallBatchReader(StreamReader):
    def read(self, partition: Any) -> Iterator[Any]:
        ours, sqlite._BATCH_BYTES = sqlite._BATCH_BYTES, SMALL_BATCH_BYTES
        try:
            for batch in super().read(partition):
                largest = max(len(value) for value in batch.column("value").to_pylist())
                assert batch.nbytes < SMALL_BATCH_BYTES + 130 * (largest + 200), batch.nbytes
                yield batch
        finally:
            sqlite._BATCH_BYTES = ours  # the worker is used again
