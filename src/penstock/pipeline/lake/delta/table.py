"""A Delta table at one moment: its rows and files, its properties, and its transactions."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Self
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Schema, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import CommitProperties

from penstock.clock import SYSTEM
from penstock.errors import Error, TableAsksMore

from ..contract import NO_TEXTS, SCAN_BYTES, SCAN_ROWS, SOURCES, DataFile, Table, TableFile, TableRules, Texts, Titles
from ..identity import Transactions
from ..paths import below, is_delta
from ..rules import deletion_vectors, delta_rules
from ..storage import Location, storage_of
from .kept_sources import due_properties, found_again
from .log import LogState, MetaData, Protocol, read_log, write_commit

logger = logging.getLogger("penstock.pipeline")
_LOG_FILES = (".json", ".checkpoint.parquet")
# A reader of the log walks all commits since the last checkpoint, so that a commit costs the same at any age.
_PROPERTIES = {"delta.checkpointInterval": "10"}


class LakeTable(Table):
    """One Delta table. Its log is read at once; delta-rs loads the list of files only when it is needed."""

    def __init__(self, path: Location) -> None:
        super().__init__(path)
        self._asked: DeltaTable | None = None
        self._log: LogState | None = None
        self._found: dict[str, int] | None = None

    @property
    def _table(self) -> DeltaTable:
        if self._asked is None:
            version = None if self._log is None else self._log.version
            self._asked = DeltaTable(self.path, version, storage_options=self._storage.delta_options)
        return self._asked

    def _state(self) -> LogState:
        """Return the state in the log, at the table's version; by delta-rs if only that can read it."""
        if self._log is None:
            found = read_log(self.folder, None if self._asked is None else self._asked.version())
            self._log = found or self._asked_state()
        return self._log

    def _asked_state(self) -> LogState:
        said, protocol = self._table.metadata(), self._table.protocol()
        metadata = MetaData(
            self._table.schema().to_json(),
            list(said.partition_columns),
            dict(said.configuration),
            str(said.id),
            said.name,
            said.description,
            createdTime=said.created_time,
        )
        versions = protocol.min_reader_version, protocol.min_writer_version
        features = Protocol(*versions, protocol.reader_features, protocol.writer_features)
        return LogState(self._table.version(), None, metadata, features)

    def _forget(self) -> None:
        self._asked = self._log = self._found = None

    @classmethod
    def opened(cls, path: Location, schema: pa.Schema, properties: Texts = NO_TEXTS, partition_by: Titles = ()) -> Self:
        table = cls(path)
        if not is_delta(path):
            path.mkdir(parents=True, exist_ok=True)
            try:
                with storage_of(path).asking(path):
                    DeltaTable.create(
                        str(path),
                        schema,
                        mode="ignore",
                        partition_by=list(partition_by),
                        configuration=_PROPERTIES | dict(properties),
                        raise_if_key_not_exists=False,  # ours are not Delta's
                        storage_options=storage_of(path).delta_options,
                    )
            except DeltaError:
                if not is_delta(path):  # else another driver made it just then
                    raise
            table.sync()
            storage_of(path).bring_to_disk(path / "_delta_log", path)
        return table

    def version(self) -> int:
        return self._state().version

    def version_of(self, application: str) -> int | None:
        found = self._version_said(application)
        return self._found_again().get(application) if found is None else found

    def _found_again(self) -> dict[str, int]:
        if self._found is None:
            self._found = found_again(self, self._version_said)
        return self._found

    def _version_said(self, application: str) -> int | None:
        known = self._state().applications
        return self._table.transaction_version(application) if known is None else known.get(application)

    def files(self) -> list[TableFile]:
        actions = pa.table(self._table.get_add_actions(flatten=True))
        rows, sizes = (actions.column(name).to_pylist() for name in ("num_records", "size_bytes"))
        names = [unquote(name) for name in actions.column("path").to_pylist()]
        columns = self.partition_columns() if names else []
        values = [actions.column(f"partition.{each}").cast(pa.string()).to_pylist() for each in columns]
        parts = [dict(zip(columns, each, strict=True)) for each in zip(*values, strict=True)] or [{}] * len(names)
        return [TableFile(*each) for each in zip(parts, names, rows, sizes, strict=True)]

    def partition_columns(self) -> list[str]:
        return list(self._state().metadata.partitionColumns)

    def configuration(self) -> dict[str, str]:
        return {name: each for name, each in self._state().metadata.configuration.items() if each is not None}

    def rules(self, *, rewrites: bool) -> TableRules:
        protocol = self._state().protocol
        return delta_rules(self.path, self.schema_form(), protocol, self.configuration(), rewrites=rewrites)

    def _check_rewrite(self) -> None:
        """Refuse to rewrite files that may hold deleted rows. Raises TableAsksMore."""
        for what in deletion_vectors(self._state().protocol):
            raise TableAsksMore(self.path, what)

    def schema_form(self) -> dict[str, Any]:
        return msgspec.json.decode(self._state().metadata.schemaString, type=dict[str, Any])

    def arrow_schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def add_columns(self, schema: pa.Schema, names: Sequence[str]) -> None:
        fields = [each for each in Schema.from_arrow(schema).fields if each.name in names]
        with self._storage.asking(self.folder):
            self._table.alter.add_columns(fields, commit_properties=CommitProperties(max_commit_retries=0))
        self._forget()

    def batches(self, names: Sequence[str], rows_together: int = SCAN_ROWS) -> Iterator[pa.RecordBatch]:
        for name in sorted(self.file_names()):
            if not (self.folder / name).is_file():
                raise self.damaged(f"its file {name} is not there")
        try:
            with self._storage.asking(self.folder):
                row_bytes, plain = self._looked_at(names)
                rows = max(1, min(rows_together, SCAN_BYTES // row_bytes))
                if not plain:
                    yield from self._table.to_pyarrow_dataset().to_batches(
                        columns=list(names), batch_size=rows, batch_readahead=0, fragment_readahead=0
                    )
                for name in sorted(self.file_names()) if plain else ():
                    with self._storage.parquet(self.folder / name) as source:
                        for batch in source.iter_batches(rows, columns=list(names), use_threads=False):
                            yield batch.select(list(names))
        except (OSError, pa.ArrowException, DeltaError) as exc:
            raise self.damaged(self._storage.public_text(exc)) from None

    def _looked_at(self, names: Sequence[str]) -> tuple[int, bool]:
        """Return the uncompressed bytes of a row, and whether the files can be read as they are.

        The bytes are those of the file with the largest rows. The files can be read as they are if each has
        these columns with the table's types; Arrow's dataset, which adds missing columns, takes 80 MB more.
        """
        most, plain, schema = 1, not self._table.protocol().reader_features, self.arrow_schema()
        wanted = [schema.field(name) for name in names]
        for name in sorted(self.file_names()):
            with self._storage.parquet(self.folder / name) as source:
                file, there = source.metadata, {each.name: each.type for each in source.schema_arrow}
            size = sum(file.row_group(number).total_byte_size for number in range(file.num_row_groups))
            most = max(most, size // max(1, file.num_rows))
            plain = plain and all(there.get(each.name) == each.type for each in wanted)
        return most, plain

    def compact(self, file_bytes: int) -> tuple[int, int]:
        # The old files stay until `vacuum`, so that readers of an older version find them. Until this method
        # has synced the new ones, the old files repair the damage of a power cut (`DeltaTable.restore`).
        self._check_rewrite()
        before = self.file_names()
        with self._storage.asking(self.folder):
            done = self._table.optimize.compact(
                target_size=file_bytes, max_concurrent_tasks=1, writer_properties=WriterProperties(compression="ZSTD")
            )
        if done["numFilesAdded"]:
            self._storage.bring_to_disk(*(self.folder / name for name in self.file_names() - before))
            self.sync()
        return int(done["numFilesRemoved"]), int(done["numFilesAdded"])

    def commits(self, at_most: int) -> list[dict[str, Any]]:
        return self._table.history(at_most)

    def vacuum(self, older_than_hours: int, *, dry_run: bool, full: bool = True) -> list[str]:
        """Return only files that exist: delta-rs names all that its log lists as removed."""
        named = self._table.vacuum(older_than_hours, enforce_retention_duration=False, full=full)  # a dry run
        found = [self.folder / name for name in named]
        folders = [each for each in {file.parent for file in found} if each.is_dir()]
        standing = {file for each in folders for file in each.iterdir()}
        gone = [file for file in found if file in standing]
        if gone and not dry_run:
            self._table.vacuum(older_than_hours, dry_run=False, enforce_retention_duration=False, full=full)
        return [below(file, self.folder) for file in gone]

    def purge(self, older_than_hours: int) -> list[str]:
        gone = self.vacuum(0, dry_run=False, full=False)
        gone += self.vacuum(older_than_hours, dry_run=False)
        self._forget()
        version, log = self._table.version(), self.folder / "_delta_log"
        self._table.create_checkpoint()
        self._storage.bring_to_disk(log / f"{version:020}.checkpoint.parquet", log / "_last_checkpoint")
        for file in log.iterdir():
            number = file.name.partition(".")[0]
            if number.isdigit() and int(number) < version:
                file.unlink(missing_ok=True)
        self._storage.bring_to_disk(log / "_last_checkpoint")
        self._forget()
        return gone

    def commit(self, added: Sequence[DataFile], removed: Titles, transactions: Transactions, notes: Texts) -> None:
        """Write a commit; delta-rs only makes the table's checkpoint."""
        self.rules(rewrites=False)
        if removed:
            self._check_rewrite()
            if self.configuration().get("delta.appendOnly", "").lower() == "true":
                raise TableAsksMore(self.path, "delta.appendOnly: no rows may be removed or written anew")
        known = [(name, end) for name, end in self._found_again().items() if name not in dict(transactions)]
        properties = due_properties(self, transactions, notes) if SOURCES in notes else {}
        actions = [*self._removals(removed), *map(_addition, added)]
        after = write_commit(self.folder, self._state(), actions, [*known, *transactions], notes, properties)
        self._forget()
        if after.checkpoint_is_due():
            self._log = after
            try:
                with self._storage.asking(self.folder):
                    self._table.create_checkpoint()
                    self._table.cleanup_metadata()
                    self.sync()
            except (DeltaError, Error) as exc:  # the commit stands; the next due checkpoint follows
                said = self._storage.public_text(exc)
                logger.warning("table %s has no checkpoint at %d: %s", self.path, after.version, said)
            self._forget()

    def _removals(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        if names:
            named = {unquote(path): path for path in pa.table(self._table.get_add_actions()).column("path").to_pylist()}
            now_ms = SYSTEM.now_ms()
            for name in names:
                if name not in named:
                    raise CommitFailedError(f"{name} is not in the table any more")
                yield {"remove": {"path": named[name], "dataChange": True, "deletionTimestamp": now_ms}}

    def sync(self) -> None:
        """Sync the last commit: Spark's checkpoint must not be ahead of it after a power cut.

        The table's own checkpoint, too, if the commit has made one: readers begin with it. A write
        transaction leaves this table at the version before it, a compaction does not: so both are synced.
        """
        log, version = self.folder / "_delta_log", self._table.version()
        made = [f"{number:020}{kind}" for number in (version, version + 1) for kind in _LOG_FILES]
        self._storage.bring_to_disk(*(log / name for name in (*made, "_last_checkpoint")))


def _addition(file: DataFile) -> dict[str, Any]:
    action = {"path": file.name, "partitionValues": dict(file.part), "size": file.size, "stats": file.stats}
    return {"add": action | {"modificationTime": SYSTEM.now_ms(), "dataChange": True}}
