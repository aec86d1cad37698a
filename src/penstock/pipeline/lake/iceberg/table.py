"""An Iceberg table at one moment: its rows and files, its properties, and its transactions.

The table's properties hold the identity of a batch, written in the commit that adds the rows; the summary of
a snapshot would lose it when snapshots expire. Each of our commits makes a snapshot, even without rows, and
requires that the last snapshot is the one it read: so the catalog refuses the commit if another came in
between. pyiceberg would retry, and add the rows a second time after another driver has committed the same
batch: its retries are off for our commits, whatever the table is configured to.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self
from uuid import UUID

import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ServerError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_files_to_data_files, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, TableProperties, Transaction
from pyiceberg.table import Table as Loaded
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableUpdate
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.transforms import IdentityTransform, parse_transform

from penstock.clock import SYSTEM
from penstock.errors import InvalidOption, PipelineFailed, TableAsksMore

from ..contract import (
    FILES,
    NO_TEXTS,
    OF_LAKE,
    ROWS,
    SCAN_BYTES,
    SCAN_ROWS,
    SOURCES,
    DataFile,
    Table,
    TableFile,
    TableRules,
    Texts,
    Titles,
    delta_form,
)
from ..data_files import OpenFile, Rewritten, fitting, plain_field, rows_of
from ..identity import Transactions
from ..paths import below, descriptions
from ..storage import Location
from .catalog import address_of, at, catalog_of, is_beside, make_namespace

_OPERATION = "penstock.operation"  # in the summary of a snapshot: its operation, where Iceberg has no word for it
_KEPT_SNAPSHOTS = 100  # each commit writes the whole list
_HOUR_MS = 3_600_000
_ENDINGS = (".parquet", ".avro", ".json")  # of the files of a table
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}


class IcebergTable(Table):
    """One Iceberg table. It is loaded from its catalog on first use."""

    parts_in_files = True

    def __init__(self, path: Location) -> None:
        super().__init__(path)
        self._catalog, self._name = catalog_of(path)
        self.settles_late |= not is_beside(self._catalog)  # a connection to a catalog may be lost
        self._loaded: Loaded | None = None

    @property
    def _table(self) -> Loaded:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> Loaded:
        try:
            return self._known()
        except NoSuchTableError as exc:
            first = list(descriptions(self.folder))
            # A crash came before the table was registered.
            if first and all(each.name.startswith("00000-") for each in first):
                with suppress(TableAlreadyExistsError):  # another driver has registered it
                    self._catalog.register_table(self._name, address_of(first[0]))
                return self._known()
            raise self.damaged(f"its catalog knows no table {'.'.join(self._name)}") from exc

    def _known(self) -> Loaded:
        try:
            found = self._catalog.load_table(self._name)
        except FileNotFoundError as exc:
            raise self.damaged(str(exc).partition("\n")[0]) from exc
        if at(found.location()) != self.folder:
            wanted = f"another one than {self._name[0]}, where table {self._name[1]} is {found.location()}"
            raise InvalidOption("namespace", self._name[0], wanted)
        return found

    @classmethod
    def opened(cls, path: Location, schema: pa.Schema, properties: Texts = NO_TEXTS, partition_by: Titles = ()) -> Self:
        table = cls(path)
        try:
            table._loaded = table._known()
        except NoSuchTableError:
            make_namespace(table._catalog, table._name[0])
            if not any(descriptions(path)):  # else a new table would replace the one that is there
                (path / "metadata").mkdir(parents=True, exist_ok=True)
                with suppress(TableAlreadyExistsError, CommitFailedException):  # another driver has just made it
                    table._create(schema, properties, partition_by)
                table._storage.bring_to_disk(path / "metadata", path)
        return table

    def drop(self) -> None:
        with suppress(NoSuchTableError):
            with suppress(FileNotFoundError, ServerError):  # its files were deleted by hand
                if at(self._catalog.load_table(self._name).location()) != self.folder:
                    return  # it belongs to another lake
            self._catalog.drop_table(self._name)

    def _create(self, schema: pa.Schema, properties: Mapping[str, str], partition_by: Sequence[str]) -> None:
        """Create it, partitioned by columns of its own, or by a unit of time of one: `timestamp_day`."""
        address, told = address_of(self.folder), _PROPERTIES | dict(properties)
        making = self._catalog.create_table_transaction(self._name, schema, location=address, properties=told)
        with making as transaction:
            if partition_by:
                with transaction.update_spec() as spec:
                    for each in partition_by:
                        column, _, unit = each.rpartition("_")
                        transform = IdentityTransform() if each in schema.names else parse_transform(unit)
                        spec.add_field(each if each in schema.names else column, transform, each)
            # Our files have no column ids, so columns are found by name.
            mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})

    def version(self) -> int:
        return self._table.last_sequence_number

    def moment(self) -> str:
        return str(self._table.metadata_location)

    def version_of(self, application: str) -> int | None:
        found = self._table.properties.get(application)
        return None if found is None else int(found)

    def configuration(self) -> dict[str, str]:
        return dict(self._table.properties)

    def partition_columns(self) -> list[str]:
        return [each.name for each in self._table.spec().fields]

    def rules(self, *, rewrites: bool) -> TableRules:
        """Return no rules. Raises TableAsksMore for required columns: pyiceberg refuses our files then."""
        required = [each.name for each in self._table.schema().fields if each.required]
        if required:
            raise TableAsksMore(self.path, f"required columns ({', '.join(required)})")
        return TableRules()

    def schema_form(self) -> dict[str, Any]:
        return delta_form(self.arrow_schema())

    def form_of(self, schema: pa.Schema) -> dict[str, Any]:
        # Iceberg has no integers of 8 or 16 bits
        return delta_form(_arrow_of(Catalog._convert_schema_if_needed(schema)))

    def arrow_schema(self) -> pa.Schema:
        return _arrow_of(self._table.schema())

    def add_columns(self, schema: pa.Schema, names: Sequence[str]) -> None:
        transaction = self._begin()
        new = pa.schema([each for each in schema if each.name in names])
        with transaction.update_schema() as update:
            update.union_by_name(new)
        self._finish(transaction)

    def _tasks(self) -> list[FileScanTask]:
        return list(self._table.scan().plan_files())

    def files(self) -> list[TableFile]:
        return [self._listed(each) for each in self._tasks()]

    def _listed(self, task: FileScanTask) -> TableFile:
        file, values = task.file, enumerate(self.partition_columns())
        part = {name: None if file.partition[n] is None else str(file.partition[n]) for n, name in values}
        return TableFile(part, below(at(file.file_path), self.folder), file.record_count, file.file_size_in_bytes)

    def batches(self, names: Sequence[str], rows_together: int = SCAN_ROWS) -> Iterator[pa.RecordBatch]:
        wanted = self.arrow_schema()
        schema = pa.schema([wanted.field(name) for name in names])
        for each in self._tasks():
            file = at(each.file.file_path)
            if not file.is_file():
                raise self.damaged(f"its file {file.name} is not there")
        try:
            for batch in self._table.scan(selected_fields=tuple(names)).to_arrow_batch_reader():
                rows = pa.Table.from_batches([batch]).select(list(names)).cast(schema)
                together = min(rows_together, max(1, SCAN_BYTES * rows.num_rows // max(1, rows.nbytes)))
                yield from rows.to_batches(max_chunksize=max(1, together))
        except (OSError, pa.ArrowException) as exc:
            raise self.damaged(str(exc).partition("\n")[0]) from exc

    def _begin(self) -> Transaction:
        """Return a transaction on the table as it was loaded, without pyiceberg's retries."""
        self._table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"  # in this copy only
        return _Remembering(self._table)

    def commit(self, added: Sequence[DataFile], removed: Titles, transactions: Transactions, notes: Texts) -> None:
        """Commit on top of the last snapshot. Raises CommitFailedError, TableAsksMore."""
        transaction = self._begin()
        sticky = {name: notes[name] for name in (SOURCES, OF_LAKE) if name in notes}
        properties = {name: str(version) for name, version in transactions} | sticky
        if properties:
            transaction.set_properties(properties)
        update = transaction.update_snapshot({name: each for name, each in notes.items() if name not in sticky})
        old = {str(self.folder / name) for name in removed}
        tasks = [each for each in self._tasks() if str(at(each.file.file_path)) in old] if old else []
        if any(each.delete_files for each in tasks):
            said = f"rows of table {self.path} were deleted by an engine that did not write their files anew"
            raise PipelineFailed(f"{said}; let it do so (rewrite_data_files), or they would come back")
        gone = [each.file for each in tasks]
        producer = _evaluating_alone(update.overwrite()) if gone else update.merge_append()
        paths = (f"{self._table.location()}/{each.name}" for each in added)
        try:
            with producer as files:
                for data_file in parquet_files_to_data_files(self._table.io, transaction.table_metadata, paths):
                    files.append_data_file(data_file)
                for data_file in gone:
                    files.delete_data_file(data_file)
        except BaseException:
            self._drop_descriptions(producer.commit_uuid)
            raise
        try:
            self._finish(transaction)
        except CommitFailedError:
            if not self.settles_late:
                self._drop_descriptions(producer.commit_uuid)
            raise

    def _drop_descriptions(self, commit: UUID) -> None:
        """Remove the manifests of a failed commit: they contain bounds of columns."""
        for file in (self.folder / "metadata").glob(f"*{commit}*.avro"):
            file.unlink(missing_ok=True)

    def _finish(self, transaction: Transaction) -> None:
        """Sync the files that the commit points to, then commit. Raises CommitFailedError."""
        made = transaction.table_metadata.current_snapshot()
        before = self._table.metadata.current_snapshot()
        if made is not None and (before is None or made.snapshot_id != before.snapshot_id):
            known = set() if before is None else set(_metadata_files(self._table, before))
            self._storage.bring_to_disk(*[file for file in _metadata_files(self._table, made) if file not in known])
            old = sorted(transaction.table_metadata.snapshots, key=lambda each: each.timestamp_ms)
            named = {made.snapshot_id, *_named(transaction.table_metadata)}
            old = [each for each in old if each.snapshot_id not in named][: -_KEPT_SNAPSHOTS + 1]
            if old:
                ExpireSnapshots(transaction).by_ids([each.snapshot_id for each in old]).commit()
        self._close(transaction)

    def _close(self, transaction: Transaction) -> None:
        try:
            transaction.commit_transaction()
        except CommitFailedException as exc:
            raise CommitFailedError(str(exc)) from exc
        finally:
            self._forget()

    def _forget(self) -> None:
        self._loaded = None

    def compact(self, file_bytes: int) -> tuple[int, int]:
        # A file with rows deleted by another engine that did not rewrite it stays.
        small: dict[tuple[str | None, ...], list[TableFile]] = {}
        for each in map(self._listed, (each for each in self._tasks() if not each.delete_files)):
            if each.size < file_bytes:
                small.setdefault(tuple(each.part.values()), []).append(each)
        done = _joined(self.folder, self.arrow_schema(), list(small.values()), file_bytes)
        if done.removed:
            with done.committing(self):
                notes = {ROWS: "0", FILES: str(len(done.added)), _OPERATION: "optimize"}
                self.commit(done.added, done.removed, [], notes)
        return len(done.removed), len(done.added)

    def commits(self, at_most: int) -> list[dict[str, Any]]:
        found = []
        for each in sorted(self._table.snapshots(), key=lambda each: -(each.sequence_number or 0))[:at_most]:
            said = {} if each.summary is None else dict(each.summary.additional_properties)
            operation = "" if each.summary is None else each.summary.operation.value
            commit: dict[str, Any] = {"version": each.sequence_number, "timestamp": each.timestamp_ms}
            commit |= {"operation": said.get(_OPERATION, operation), ROWS: said.get(ROWS, said.get("added-records", 0))}
            commit |= {FILES: said.get("added-data-files", 0), "num_removed_files": said.get("deleted-data-files", 0)}
            found.append(commit)
        return found

    def purge(self, older_than_hours: int) -> list[str]:
        """Remove all older snapshots, their files and metadata. Raises PipelineFailed if a tag or branch keeps one."""
        names = ", ".join(sorted(self._table.metadata.refs.keys() - {MAIN_BRANCH}))
        if names:
            said = f"table {self.path} has tags or branches, which keep what was: {names}"
            raise PipelineFailed(f"{said}; drop them, and run this again")
        was = _needed(self._table, self._table.snapshots())
        # The snapshot that removes files still describes them; the next one does not.
        self.commit((), (), [], {_OPERATION: "erase"})
        was |= _needed(self._table, self._table.snapshots())
        self._expire(set())
        gone = [each for each in was - _needed(self._table, self._table.snapshots()) if each.is_file()]
        for each in gone:
            each.unlink(missing_ok=True)
        removed = {*(below(each, self.folder) for each in gone), *self.vacuum(older_than_hours, dry_run=False)}
        return sorted(name for name in removed if name.endswith(".parquet"))

    def _expire(self, stay: set[int]) -> None:
        """Expire all snapshots but the given ones, the last one, and named ones. Raises CommitFailedError."""
        kept = stay | _named(self._table.metadata)
        gone = [each.snapshot_id for each in self._table.snapshots() if each.snapshot_id not in kept]
        if gone:
            expiring = self._begin()
            ExpireSnapshots(expiring).by_ids(gone).commit()
            self._close(expiring)

    def vacuum(self, older_than_hours: int, *, dry_run: bool) -> list[str]:
        """Expire snapshots older than an age, and remove files of that age that no snapshot points to."""
        before_ms = SYSTEM.now_ms() - older_than_hours * _HOUR_MS
        named = _named(self._table.metadata)
        stay = [each for each in self._table.snapshots() if each.timestamp_ms >= before_ms or each.snapshot_id in named]
        if not dry_run:
            self._expire({each.snapshot_id for each in stay})
        held = _needed(self._table, stay)
        found = {below(each, self.folder): each for each in self._storage.files_below(self.folder)}
        # Not our state beside the table, nor an old table.
        ours = {name: each for name, each in found.items() if not name.startswith("_") and name.endswith(_ENDINGS)}
        old = {name: each for name, each in ours.items() if each not in held}
        left = {name: each for name, each in old.items() if each.stat().st_mtime * 1000 < before_ms}
        for each in () if dry_run else left.values():
            each.unlink(missing_ok=True)
        return sorted(left)


class _Remembering(Transaction):
    """A transaction that caches the table's metadata after its changes so far.

    pyiceberg computes it on each access, and copies all snapshots: most of the time of a commit.
    """

    _worked_out: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        if self._worked_out is None or self._worked_out[0] is not self._updates:
            self._worked_out = self._updates, super().table_metadata
        return self._worked_out[1]


def _evaluating_alone(producer: Any) -> Any:
    """Give each manifest an evaluator of its own.

    pyiceberg 0.12 shares one between its threads, and the evaluator keeps state about the manifest at hand: a
    manifest with files to be removed is then skipped, and the commit fails.
    """
    build = producer._build_manifest_evaluator
    producer._build_manifest_evaluator = lambda spec: lambda manifest: build(spec)(manifest)
    return producer


def _named(metadata: TableMetadata) -> set[int]:
    """Return the snapshots that a tag or branch names: the last one, and those that others have named."""
    return {each.snapshot_id for each in metadata.refs.values()}


def _metadata_files(table: Loaded, snapshot: Snapshot) -> Iterator[Location]:
    yield at(snapshot.manifest_list)
    for manifest in snapshot.manifests(table.io):
        yield at(manifest.manifest_path)


def _needed(table: Loaded, snapshots: Collection[Snapshot]) -> set[Location]:
    found = {at(table.metadata_location)}
    found |= {at(each.metadata_file) for each in table.metadata.metadata_log}
    seen = set[str]()
    for snapshot in snapshots:
        found.update(_metadata_files(table, snapshot))
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found.update(at(entry.data_file.file_path) for entry in entries)
    return found


def _arrow_of(schema: Schema) -> pa.Schema:
    """Return columns as an Arrow schema, without large types and without ids, which our files lack."""
    return pa.schema([plain_field(each, nullable=True) for each in schema_to_pyarrow(schema, include_field_ids=False)])


def _joined(path: Location, schema: pa.Schema, parts: Sequence[Sequence[TableFile]], file_bytes: int) -> Rewritten:
    """Join the files of each partition into files of about a size; no commit."""
    with Rewritten() as done:
        for names in (names for files in parts for names in _bins(files, file_bytes)):
            with OpenFile(path, schema) as file:
                for batch in rows_of(path / name for name in names):
                    for rows in fitting(pa.Table.from_batches([batch]), schema).to_batches():
                        file.add(rows)
                done.added.append(file.finish())
            done.removed += names
    return done


def _bins(files: Sequence[TableFile], file_bytes: int) -> list[list[str]]:
    bins, size = list[list[str]](), file_bytes
    for each in files:
        if size + each.size > file_bytes:
            bins.append([])
            size = 0
        bins[-1].append(each.name)
        size += each.size
    return [names for names in bins if len(names) > 1]
