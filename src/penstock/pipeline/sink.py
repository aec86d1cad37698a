"""The sink `format("penstock-delta")`: Delta tables, append only, each batch once.

Tasks write Parquet files; the driver commits them with the batch's identity in the table's own transaction
(`identity.py`, `table.py`). Streaming needs `checkpointLocation` as an option of the writer, for it is where
a batch's range stands; a batch write names itself by `txnAppId` and `txnVersion`. `tableBy` spreads rows over
one table for each value of a column: all tables of the lake move together, each in a transaction of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import InvalidOption, MissingExtra

from .checkpoint import read_batch
from .identity import BatchIdentity, ByOffsets, by_application, identity_of
from .lake_state import ITSELF, check_tables, remember
from .offsets import Range
from .paths import is_table, table_path, tables_in
from .table import DataFile, LakeTable, commit, discard
from .writing import FileWriter

try:
    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        WriterCommitMessage,
    )
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote."""

    files: list[DataFile] = field(default_factory=list)


class DeltaSink(DataSource):
    """What Spark asks first: a name, and the writer for a batch or a stream."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock-delta"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch query."""
        return DeltaBatchWriter(_target(self.options, schema, overwrite), self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Return the writer of a streaming query."""
        return DeltaStreamWriter(_target(self.options, schema, overwrite), self.options)


@dataclass(frozen=True)
class Target:
    """Where rows go, and in which columns."""

    root: Path
    schema: pa.Schema
    by: str | None
    only: tuple[str, ...] = ()  # of the tables of a lake: the others get nothing

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows as files."""
        return Written(FileWriter(self.root, self.schema, self.by, self.only).write(batches))

    def commit(self, messages: Sequence[WriterCommitMessage | None], identity: BatchIdentity) -> list[str]:
        """Put a batch's files into their tables; return the tables, as the lake knows them."""
        files = files_of(messages)
        if self.by is None:
            done = commit(self.root, self.schema, files, identity)
            return [ITSELF] if done else []
        if not isinstance(identity, ByOffsets):
            raise InvalidOption(
                "tableBy", self.by, "left out for a query that keeps state or has other sources"
            )
        fed = [self.root / name for name in self.only] or self._tables(identity)
        by_table: dict[Path, list[DataFile]] = {each: [] for each in fed}
        for each in files:
            by_table.setdefault(Path(each.table), []).append(each)
        for path in sorted(by_table):
            commit(path, self.schema, by_table[path], identity)
        return [path.name for path in by_table]

    def _tables(self, identity: ByOffsets) -> list[Path]:
        """Return the tables of the lake that this topic feeds: all of them end where the batch ends."""
        if is_table(self.root):
            raise InvalidOption("path", str(self.root), "a folder of tables, and it is a table")
        return [path for path in tables_in(self.root) if identity.feeds(LakeTable(path))]


class DeltaBatchWriter(DataSourceArrowWriter):
    """A batch query into a table."""

    def __init__(self, target: Target, options: Mapping[str, str]) -> None:
        self._target = target
        ranged = options.get("batchRange")  # of a table that is made again: as if the stream had written it
        self._identity: BatchIdentity = (
            ByOffsets((Range.from_json(msgspec.json.decode(ranged)),))
            if ranged
            else by_application(options.get("txnAppId"), options.get("txnVersion"))
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Put them into the table, unless this very write is there."""
        self._target.commit(messages, self._identity)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was written."""
        discard(files_of(messages))


class DeltaStreamWriter(DataSourceStreamArrowWriter):
    """A streaming query into a table, or a lake of tables."""

    def __init__(self, target: Target, options: Mapping[str, str]) -> None:
        self._target = target
        self._checkpoint = options.get("checkpointLocation") or ""
        if not self._checkpoint:
            raise InvalidOption(
                "checkpointLocation", "", "given to the writer: .option('checkpointLocation', …)"
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Put a micro-batch into the table, unless it is there."""
        check_tables(self._target.root)
        tables = self._target.commit(messages, identity_of(read_batch(self._checkpoint, batchId)))
        remember(self._target.root, tables)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove what was written."""
        discard(files_of(messages))


def files_of(messages: Sequence[Any]) -> list[DataFile]:
    """Return the files of all tasks that ended well."""
    return [each for message in messages if isinstance(message, Written) for each in message.files]


def _target(options: Mapping[str, str], schema: StructType, overwrite: bool) -> Target:
    if overwrite:
        raise InvalidOption(
            "mode", "overwrite", "append; to make a table again: penstock pipeline reset --rebuild"
        )
    by = options.get("tableBy") or None
    arrow = _nullable(to_arrow_schema(schema, timezone="UTC"))
    if by is not None and by not in arrow.names:
        raise InvalidOption("tableBy", by, f"one of the columns {', '.join(arrow.names)}")
    only = tuple(name for name in (options.get("onlyTables") or "").split("/") if name)
    return Target(table_path("path", options.get("path") or ""), arrow, by, only)


def _nullable(schema: pa.Schema) -> pa.Schema:
    """A column that is never null in one query may be null in the next, and the table is the same."""
    return pa.schema([field.with_nullable(True) for field in schema])
