"""A Delta table at one moment: its rows and files, its properties, and its transactions.

`committing.py` decides when a batch is committed, and that it is committed once.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Schema, WriterProperties
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from penstock.clock import SYSTEM
from penstock.errors import Error, TableAsksMore

from ...offsets import Ends
from ..contract import (
    OF_LAKE,
    SCAN_BYTES,
    SCAN_ROWS,
    SOURCES,
    DataFile,
    PartOf,
    Size,
    Table,
    TableRules,
    declared,
    notes_of,
)
from ..identity import BatchIdentity, Source, Transactions
from ..paths import is_delta
from ..rules import deletion_vectors, delta_rules
from ..storage import Location, storage_of
from .kept_sources import due_properties, found_again
from .log import KEPT_MS, LogState, Protocol, add_files, read_log

logger = logging.getLogger("penstock.pipeline")
_LOG_FILES = (".json", ".checkpoint.parquet")
# A reader of the log walks all commits since the last checkpoint, so that a commit costs the same at any age.
_CONFIGURATION = {"delta.checkpointInterval": "10"}


class LakeTable(Table):
    """One Delta table at one moment: that of the first access.

    The log is read at once; delta-rs loads the list of files only when it is needed.
    """

    def __init__(self, path: Location) -> None:
        self.path, self._at, self._storage = str(path), path, storage_of(path)
        self._asked: DeltaTable | None = None
        self._log: LogState | None = None
        self._found: dict[str, int] | None = None

    @property
    def settles_late(self) -> bool:  # type: ignore[override]
        """Whether a commit reported as failed may still take effect."""
        return self._storage.settles_late

    @property
    def _table(self) -> DeltaTable:
        if self._asked is None:
            version = None if self._log is None else self._log.version
            self._asked = DeltaTable(self.path, version, storage_options=_options(self._at))
        return self._asked

    def _known(self) -> LogState | None:
        """Return the state in the log, at the table's version; None: only delta-rs can read it."""
        if self._log is None:
            self._log = read_log(self._at, None if self._asked is None else self._asked.version())
        return self._log

    def _forget(self) -> None:
        """Drop the loaded state after a commit: the next access reads it again."""
        self._asked = self._log = self._found = None

    @classmethod
    def opened(
        cls,
        path: Location,
        schema: pa.Schema,
        configuration: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
    ) -> Self:
        """Return the table at a path, made with these columns if there is none."""
        if not is_delta(path):
            path.mkdir(parents=True, exist_ok=True)
            settings = _CONFIGURATION | dict(configuration or {})
            try:
                with storage_of(path).asking(path):
                    DeltaTable.create(
                        str(path),
                        schema,
                        mode="ignore",
                        partition_by=list(partition_by),
                        configuration=settings,
                        raise_if_key_not_exists=False,  # ours are not Delta's
                        storage_options=_options(path),
                    )
            except DeltaError:
                if not is_delta(path):  # else another driver made it just then
                    raise
            made = cls(path)
            made.sync()
            storage_of(path).bring_to_disk(path / "_delta_log", path)
            return made
        return cls(path)

    def moment(self) -> str:
        """Return its version."""
        log = self._known()
        return str(self._table.version() if log is None else log.version)

    def version_of(self, application: str) -> int | None:
        """Return the version that an application has reached. Raises EndsLost."""
        found = self._version_said(application)
        return self._found_again().get(application) if found is None else found

    def _found_again(self) -> dict[str, int]:
        if self._found is None:
            self._found = found_again(self, self._version_said)
        return self._found

    def _version_said(self, application: str) -> int | None:
        log = self._known()
        return (
            self._table.transaction_version(application) if log is None else log.applications.get(application)
        )

    def is_empty(self) -> bool:
        """Return whether the table holds no files."""
        return not self._table.file_uris()

    def files(self) -> list[tuple[PartOf, str]]:
        """Return the files that the table points to, as paths below its folder, each with its part."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        names = [unquote(name) for name in actions.column("path").to_pylist()]
        columns = self.partition_columns() if names else []
        values = [actions.column(f"partition.{each}").cast(pa.string()).to_pylist() for each in columns]
        return [
            (dict(zip(columns, part, strict=True)), name)
            for name, part in zip(
                names, zip(*values, strict=True) if values else [()] * len(names), strict=True
            )
        ]

    def sources(self) -> list[Source]:
        """Return the topics that feed the table, by its properties; of an old table, by our last commit."""
        said = self._notes().get(SOURCES)
        return [] if said is None else msgspec.json.decode(said, type=list[Source])

    def is_of_lake(self) -> bool:
        """Return whether it was committed to as one of several tables whose common position a mark keeps."""
        return OF_LAKE in self._notes()

    def _notes(self) -> Mapping[str, Any]:
        kept = self.configuration()
        return kept if SOURCES in kept else self._last_notes()

    def _last_notes(self) -> dict[str, Any]:
        for limit in (1, 50, None):  # mostly it is the last one of many
            for entry in self._table.history(limit):
                if SOURCES in entry:
                    return entry
        return {}

    def size(self) -> Size:
        """Return the size of the table."""
        files = pa.table(self._table.get_add_actions())
        rows = files.column("num_records").to_pylist()
        return Size(self._table.version(), sum(rows), len(rows), sum(files.column("size_bytes").to_pylist()))

    def partition_columns(self) -> list[str]:
        """Return the partition columns of the table."""
        log = self._known()
        metadata = None if log is None else log.metadata
        return list(
            self._table.metadata().partition_columns if metadata is None else metadata.partitionColumns
        )

    def configuration(self) -> dict[str, str]:
        """Return the properties of the table."""
        log = self._known()
        metadata = None if log is None else log.metadata
        if metadata is None:
            return dict(self._table.metadata().configuration)
        return {name: each for name, each in metadata.configuration.items() if each is not None}

    def rules(self, *, rewrites: bool) -> TableRules:
        """Return the rules that every row must meet. Raises TableAsksMore."""
        return delta_rules(
            self.path, self.schema_form(), self._protocol(), self.configuration(), rewrites=rewrites
        )

    def _protocol(self) -> Protocol:
        log = self._known()
        if log is not None and log.protocol is not None:
            return log.protocol
        found = self._table.protocol()
        versions = found.min_reader_version, found.min_writer_version
        return Protocol(*versions, found.reader_features, found.writer_features)

    def _check_rewrite(self) -> None:
        """Refuse to rewrite files that may hold deleted rows. Raises TableAsksMore."""
        for what in deletion_vectors(self._protocol()):
            raise TableAsksMore(self.path, what)

    def schema_form(self) -> dict[str, Any]:
        """Return the columns in Delta's own form."""
        log = self._known()
        if log is not None:
            return log.schema()
        form: dict[str, Any] = msgspec.json.decode(self._table.schema().to_json())
        return form

    def form_of(self, schema: pa.Schema) -> dict[str, Any]:
        """Return in that form the columns that the table would have for a schema."""
        form: dict[str, Any] = msgspec.json.decode(Schema.from_arrow(schema).to_json())
        return form

    def arrow_schema(self) -> pa.Schema:
        """Return the columns as an Arrow schema."""
        return pa.schema(self._table.schema().to_arrow())

    def add_columns(self, schema: pa.Schema, names: Sequence[str]) -> None:
        """Add some columns of a schema, or fields of theirs, to the table. Raises CommitFailedError."""
        fields = [each for each in Schema.from_arrow(schema).fields if each.name in names]
        with self._storage.asking(self._at):
            self._table.alter.add_columns(fields, commit_properties=CommitProperties(max_commit_retries=0))
        self._forget()

    def batches(self, names: Sequence[str], rows_together: int = SCAN_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield some columns, in batches bounded in rows and roughly in bytes.

        Raises TableDamaged; StorageAway if the storage does not answer.
        """
        for name in sorted(self.file_names()):
            if not (self._at / name).is_file():
                raise self.damaged(f"its file {name} is not there")
        try:
            with self._storage.asking(self._at):
                row_bytes, plain = self._looked_at(names)
                rows = max(1, min(rows_together, SCAN_BYTES // row_bytes))
                if plain:
                    yield from self._file_batches(names, rows)
                    return
                yield from self._table.to_pyarrow_dataset().to_batches(
                    columns=list(names), batch_size=rows, batch_readahead=0, fragment_readahead=0
                )
        except (OSError, pa.ArrowException, DeltaError) as exc:
            raise self.damaged(self._storage.told(exc)) from None

    def _file_batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        for name in sorted(self.file_names()):
            with self._storage.parquet(self._at / name) as source:
                for batch in source.iter_batches(rows, columns=list(names), use_threads=False):
                    yield batch.select(list(names))

    def _looked_at(self, names: Sequence[str]) -> tuple[int, bool]:
        """Return the uncompressed bytes of a row, and whether the files can be read as they are.

        The bytes are those of the file with the largest rows. The files can be read as they are if each has
        these columns with the table's types; Arrow's dataset, which adds missing columns, takes 80 MB more.
        """
        most, plain, schema = 1, not self._table.protocol().reader_features, self.arrow_schema()
        wanted = [schema.field(name) for name in names]
        for name in sorted(self.file_names()):
            with self._storage.parquet(self._at / name) as source:
                file, there = source.metadata, source.schema_arrow
            size = sum(file.row_group(number).total_byte_size for number in range(file.num_row_groups))
            most = max(most, size // max(1, file.num_rows))
            plain = plain and all(
                each.name in there.names and there.field(each.name).type == each.type for each in wanted
            )
        return most, plain

    def file_sizes(self) -> list[int]:
        """Return the bytes of each file that the table points to."""
        files = pa.table(self._table.get_add_actions())
        return [int(size) for size in files.column("size_bytes").to_pylist()]

    def compact(self, file_bytes: int) -> tuple[int, int]:
        """Join files smaller than a size; return how many, and into how many. Raises CommitFailedError.

        The old files stay until `vacuum`, so that readers of an older version find them. Until this method
        has synced the new ones, the old files repair the damage of a power cut (`DeltaTable.restore`).
        """
        self._check_rewrite()
        before = self.file_names()
        with self._storage.asking(self._at):
            done = self._table.optimize.compact(
                target_size=file_bytes,
                max_concurrent_tasks=1,
                writer_properties=WriterProperties(compression="ZSTD"),
            )
        if done["numFilesAdded"]:
            self._storage.bring_to_disk(*(self._at / name for name in self.file_names() - before))
            self.sync()
        return int(done["numFilesRemoved"]), int(done["numFilesAdded"])

    def commits(self, at_most: int) -> list[dict[str, Any]]:
        """Return the last commits, newest first, in the form of Delta's log."""
        return self._table.history(at_most)

    def vacuum(self, older_than_hours: int, *, dry_run: bool) -> list[str]:
        """Remove files older than an age that no commit points to; return their names."""
        return self._vacuum(older_than_hours, dry_run=dry_run, full=True)

    def _vacuum(self, older_than_hours: int, *, dry_run: bool, full: bool) -> list[str]:
        """Return only files that exist: delta-rs names all that its log lists as removed."""
        named = self._table.vacuum(older_than_hours, enforce_retention_duration=False, full=full)  # a dry run
        found = [self._at / name for name in named]
        folders = [each for each in {file.parent for file in found} if each.is_dir()]
        standing = {file for each in folders for file in each.iterdir()}
        gone = [file for file in found if file in standing]
        if gone and not dry_run:
            self._table.vacuum(older_than_hours, dry_run=False, enforce_retention_duration=False, full=full)
        return [str(file).removeprefix(f"{self._at}/") for file in gone]

    def purge(self, older_than_hours: int) -> list[str]:
        """Remove the whole past of the table: older versions, their files and metadata."""
        gone = self._vacuum(0, dry_run=False, full=False)
        gone += self.vacuum(older_than_hours, dry_run=False)
        self._forget()
        version, log = self._table.version(), self._at / "_delta_log"
        self._table.create_checkpoint()
        self._storage.bring_to_disk(log / f"{version:020}.checkpoint.parquet", log / "_last_checkpoint")
        for file in log.iterdir():
            number = file.name.partition(".")[0]
            if number.isdigit() and int(number) < version:
                file.unlink(missing_ok=True)
        self._storage.bring_to_disk(log / "_last_checkpoint")
        self._forget()
        return gone

    def append(self, files: Sequence[DataFile], identity: BatchIdentity) -> None:
        """Add files and the batch's identity in one transaction. Raises CommitFailedError."""
        rows, log = sum(each.rows for each in files), self._known()
        said = identity.transactions(self), notes_of(identity, rows, len(files))
        if log is not None and log.can_be_added_to():
            self._add(log, files, *said)
            return
        now_ms = SYSTEM.now_ms()
        actions = [
            AddAction(each.name, each.size, dict(each.part), now_ms, True, each.stats) for each in files
        ]
        self._transact(actions, said)

    def _transact(
        self,
        actions: Sequence[AddAction | RemoveAction],
        said: tuple[Transactions, Mapping[str, str]] | None,
        schema: pa.Schema | None = None,
        partition_by: list[str] | None = None,
    ) -> None:
        """Commit actions, with transactions and notes; with the table's columns, or with others.

        Raises CommitFailedError if another commit came first; StorageAway if the storage does not answer,
        though the commit may have taken effect.
        """
        properties = {} if said is None else due_properties(self, *said)
        with self._storage.asking(self._at):
            self._table.create_write_transaction(
                actions=list(actions),
                mode="append",
                schema=self.arrow_schema() if schema is None else schema,
                partition_by=self.partition_columns() if partition_by is None else partition_by,
                commit_properties=self._properties(*([], {}) if said is None else said),
            )
        self.sync()
        self._forget()
        if properties:
            self._keep(properties)

    def _keep(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table, in a commit of their own. If it fails, the next commit sets them."""
        try:
            with self._storage.asking(self._at):
                self._table.alter.set_table_properties(
                    dict(properties),
                    raise_if_not_exists=False,
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
                self.sync()
        except (DeltaError, Error) as exc:
            logger.warning("table %s does not keep its sources: %s", self.path, self._storage.told(exc))
        self._forget()

    def _add(
        self, log: LogState, files: Sequence[DataFile], transactions: Transactions, notes: Mapping[str, str]
    ) -> None:
        """Add files without delta-rs, which only makes the table's checkpoint. Raises CommitFailedError."""
        added = [
            {"path": each.name, "partitionValues": dict(each.part), "size": each.size, "stats": each.stats}
            for each in files
        ]
        known = [(name, end) for name, end in self._found_again().items() if name not in dict(transactions)]
        properties = due_properties(self, transactions, notes)
        after = add_files(self._at, log, added, [*known, *transactions], notes, properties)
        self._forget()
        if after.checkpoint_is_due():
            self._log = after
            try:
                with self._storage.asking(self._at):
                    self._table.create_checkpoint()
                    self._table.cleanup_metadata()
                    self.sync()
            except (DeltaError, Error) as exc:  # the commit stands; the next due checkpoint follows
                said = self._storage.told(exc)
                logger.warning("table %s has no checkpoint at %d: %s", self.path, after.version, said)
            self._forget()

    def replace(
        self,
        added: Sequence[tuple[PartOf, DataFile]],
        removed: Sequence[str],
        schema: pa.Schema,
        identity: BatchIdentity | None,
        partition_by: list[str],
    ) -> None:
        """Add files, each with its part, and remove others in one transaction. Raises CommitFailedError."""
        if removed:
            self._check_rewrite()
        now_ms = SYSTEM.now_ms()
        actions: list[AddAction | RemoveAction] = [
            AddAction(each.name, each.size, values, now_ms, True, each.stats) for values, each in added
        ]
        actions += [RemoveAction(name, True, now_ms) for name in removed]
        rows = sum(each.rows for _, each in added)
        said = None
        if identity is not None:
            said = identity.transactions(self), notes_of(identity, rows, len(added))
        self._transact(actions, said, schema, partition_by)

    def sync(self) -> None:
        """Sync the last commit: Spark's checkpoint must not be ahead of it after a power cut.

        The table's own checkpoint, too, if the commit has made one: readers begin with it. A write
        transaction leaves this table at the version before it, a compaction does not: so both are synced.
        """
        log, version = self._at / "_delta_log", self._table.version()
        made = [f"{number:020}{kind}" for number in (version, version + 1) for kind in _LOG_FILES]
        self._storage.bring_to_disk(*(log / name for name in (*made, "_last_checkpoint")))

    def declare(self, source: Source, ends: Ends, marks: Mapping[int, int]) -> None:
        """Record in the table that it holds a topic up to some ends. Raises CommitFailedError."""
        self._transact([], declared(source, ends, marks))

    def _properties(self, transactions: Transactions, notes: Mapping[str, str]) -> CommitProperties:
        known = [(name, end) for name, end in self._found_again().items() if name not in dict(transactions)]
        return CommitProperties(
            app_transactions=[Transaction(name, end, KEPT_MS) for name, end in (*known, *transactions)],
            max_commit_retries=0,  # commits in between must be read first
            custom_metadata=dict(notes),
        )

    def cut_back(self, source: Source, cuts: Ends, marks: Mapping[int, int]) -> int:
        """Move the ends of the table back to given offsets, and remove the rows from there on.

        Return how many. The table takes the source's incarnation. Rows and ends change in one commit; after a
        crash, cutting back again finishes the work. Raises CommitFailedError.
        """
        ends = self.ends(source)
        where = [f"(partition = {p} AND offset >= {cut})" for p, cut in cuts.items() if cut < ends.get(p, 0)]
        removed = 0
        if where:
            properties = self._properties(*declared(source, cuts, marks))
            with self._storage.asking(self._at):
                done = self._table.delete(" OR ".join(where), commit_properties=properties)
            removed = int(done["num_deleted_rows"] or 0)
            self._forget()
        self.declare(source, cuts, marks)
        return removed

    def drop(self) -> None:
        """Do nothing: a Delta table is known by its folder alone."""


def _options(path: Location) -> dict[str, str] | None:
    options = storage_of(path).delta_options
    return None if options is None else dict(options)
