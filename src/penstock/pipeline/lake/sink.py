"""The sinks `penstock-delta` and `penstock-iceberg`: tables that take each batch once.

Tasks write Parquet files, to as many tables as their rows go to (`routing.py`); the driver commits them with
the batch's identity in each table's own transaction (`identity.py`, `commit.py`), and then moves the mark
of the lake (`lake.py`). Streaming needs `checkpointLocation` as an option of the writer, for the checkpoint
holds a batch's range; a batch write identifies itself by `txnAppId` and `txnVersion`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.errors import InvalidOption

from ..checkpoint import read_batch
from ..offsets import Range
from ..versions import StreamArrowWriter, arrow_schema_of, freeze_modules
from .commit import AppendFiles, Evolve, TablePart, check_seen, commit, discard
from .contract import DataFile, TableRules
from .data_files import FileWriter
from .identity import BatchIdentity, ByOffsets, by_application, identity_of
from .lake import Lake
from .old_tables import aside_for, set_aside
from .paths import CONTROL, catalog_root, is_table, local_path, table_path
from .routing import ITSELF, Partitioning, Routing, only_tables, routing_of
from .rules import Planned, decoded
from .state import NEW, check_checkpoint, check_tables, remember
from .storage import Location, asking, location, storage_of
from .upsert import upsert_of


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The files that a task wrote."""

    files: list[DataFile] = field(default_factory=list)


class DeltaSink(DataSource):
    """Spark's entry point: a name, and the writer for a batch or a stream."""

    _iceberg = False

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock-delta"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch query."""
        return DeltaBatchWriter(self._target(schema, overwrite), self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DeltaStreamWriter":  # noqa: N802
        """Return the writer of a streaming query."""
        return DeltaStreamWriter(self._target(schema, overwrite), self.options)

    def _target(self, schema: StructType, overwrite: bool) -> "Target":
        options = self.options
        if overwrite:
            wanted = "append; to make a table again, while the old one stays: penstock pipeline reset --rebuild"
            raise InvalidOption("mode", "overwrite", wanted)
        root = table_path("path", options.get("path") or "")
        if self._iceberg:
            begin_iceberg(root, options.get("catalog") or None, options.get("namespace") or None)
        else:
            check_delta(root)
        freeze_modules()
        # One query never has NULL in a column, the next one may.
        arrow = pa.schema([field.with_nullable(True) for field in arrow_schema_of(schema)])
        return Target(
            root,
            routing_of(options, arrow),
            _committing_of(options),
            Partitioning.parse(options.get("partitionBy")),
            only_tables(options),
            decoded(options.get("rules")),
            self._iceberg,
        )


class IcebergSink(DeltaSink):
    """The same for Iceberg tables; `catalog` and `namespace` say where they are registered."""

    _iceberg = True

    @classmethod
    def name(cls) -> str:
        return "penstock-iceberg"


def check_delta(root: Location) -> None:
    """Refuse a folder of Iceberg tables. Raises InvalidOption."""
    if catalog_root(root) == root:
        raise InvalidOption("format", "delta", f"iceberg, as the tables in {root} are, or another folder")


def begin_iceberg(root: Location, catalog: str | None, namespace: str | None) -> None:
    """Make a folder a lake of Iceberg tables. Raises InvalidOption."""
    from .iceberg.catalog import begin

    begin(root, catalog, namespace)


@dataclass(frozen=True)
class Target:
    """The target of a write: a folder, the routing of rows, and the way tables take them."""

    root: Location
    routing: Routing
    committing: AppendFiles
    partitioning: Partitioning
    only: tuple[str, ...] = ()  # tables to rebuild: only these, and up to where the lake is
    planned: Planned | None = None  # the rules that the query checks; None: it is not one of ours
    iceberg: bool = False  # then a partition's unit of time is not a column

    def write(self, batches: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write a task's rows as files; those of a rebuilt table beside the old one."""
        root = self.root / CONTROL / NEW if self.only else self.root
        return WrittenFiles(FileWriter(root, self.routing, self.partitioning).write(batches))

    def commit(self, messages: Sequence[WriterCommitMessage | None], identity: BatchIdentity) -> None:
        """Put a batch's files into their tables."""
        with asking(self.root):
            self._commit(messages, identity)

    def _commit(self, messages: Sequence[WriterCommitMessage | None], identity: BatchIdentity) -> None:
        by_table: dict[str, list[DataFile]] = {}
        for each in files_of(messages):
            folder = location(each.table)
            by_table.setdefault(ITSELF if folder == self.root else folder.name, []).append(each)
        parts = [self._part(table, by_table[table]) for table in sorted(by_table)]
        if not self.routing.several:
            (part,) = parts or [self._part(ITSELF, [])]
            if commit(part, identity, self.committing):
                remember(self.root, [ITSELF])
            return
        if not isinstance(identity, ByOffsets):
            raise InvalidOption("tableBy", "", "left out for a query that keeps state or has other sources")
        if is_table(self.root):
            raise InvalidOption("path", str(self.root), "a folder of tables, and it is a table")
        if not self.only:
            Lake(self.root).commit(parts, identity, self.committing)
            return
        named = {part.path.name: part for part in parts}
        for part in named.values():
            check_seen(part)  # for all tables, before the first is set aside
        for name in self.only:  # also one without rows now
            part = self._swapped(named.get(name) or self._part(name, []))
            commit(part, replace(identity, of_lake=True), self.committing)
        made = self.root / CONTROL / NEW
        if made.exists():
            storage_of(made).remove(made)

    def _swapped(self, part: TablePart) -> TablePart:
        if is_table(part.path):
            set_aside(self.root, part.path.name, aside_for(self.root, part.path.name))
        for each in part.files:
            storage_of(part.path).copy(each.path, part.path / each.name)
        return replace(part, files=tuple(replace(each, table=str(part.path)) for each in part.files))

    def _part(self, table: str, files: Sequence[DataFile]) -> TablePart:
        schema = self.routing.schema_of(table)
        columns = tuple(self.partitioning.columns(schema))
        whole = self.partitioning.whole(schema)
        schema = schema if self.iceberg else whole
        rules = None
        if self.planned is not None:  # a rebuilt table has none
            rules = TableRules() if self.only else self.planned.get(table, TableRules())
        return TablePart(self.root / table, schema, tuple(files), columns, rules)


class _TargetWriter:
    _target: Target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._target.write(iterator)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803 - Spark's name
        discard(files_of(messages))


class DeltaBatchWriter(_TargetWriter, DataSourceArrowWriter):
    """The writer of a batch query into a table."""

    def __init__(self, target: Target, options: Mapping[str, str]) -> None:
        self._target = target
        self._batch = options.get("checkpointLocation"), options.get("batchNumber")
        ranged = options.get("batchRange")  # of a rebuilt table: as if the stream had written it
        named = options.get("txnAppId"), options.get("txnVersion"), options.get("txnContent") or ""
        self._identity: BatchIdentity | None = None  # of `foreachBatch`: read from the checkpoint when it commits
        if not all(self._batch):
            batch = Range.from_json(msgspec.json.decode(ranged)) if ranged else None
            self._identity = by_application(*named) if batch is None else ByOffsets((batch,))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the rows to the table, unless this write is already there."""
        checkpoint, number = self._batch
        self._target.commit(messages, self._identity or identity_of(read_batch(checkpoint or "", int(number or 0))))


class DeltaStreamWriter(_TargetWriter, StreamArrowWriter):  # type: ignore[misc]  # which class it is depends on Spark's version
    """The writer of a streaming query into a table, or a lake of tables."""

    def __init__(self, target: Target, options: Mapping[str, str]) -> None:
        self._target = target
        self._checkpoint = options.get("checkpointLocation") or ""
        if not self._checkpoint:
            raise InvalidOption("checkpointLocation", "", "given to the writer: .option('checkpointLocation', …)")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a micro-batch, unless it is already there."""
        check_checkpoint(self._target.root, local_path("checkpointLocation", self._checkpoint))
        check_tables(self._target.root)
        self._target.commit(messages, identity_of(read_batch(self._checkpoint, batchId)))


def files_of(messages: Sequence[Any]) -> list[DataFile]:
    """Return the files of all tasks that succeeded."""
    return [each for message in messages if isinstance(message, WrittenFiles) for each in message.files]


def _committing_of(options: Mapping[str, str]) -> AppendFiles:
    if options.get("mode") == "upsert":
        return upsert_of(options)
    return Evolve() if options.get("layout") else AppendFiles()
