"""A Delta table: its transactions, and the commit of a batch that happens once.

Single writer by rule, not by lock: before each commit the table is asked whether it ends where the batch
begins, and the commit is refused by Delta itself if anyone committed in between; then the table is asked
again. A crash before the commit leaves files that no one points to (`vacuum` removes them); after it, the
batch is found to be there and its new files are dropped.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from penstock import points
from penstock.clock import SYSTEM
from penstock.errors import FilesUnseen, MissingExtra, PipelineFailed, TableDamaged, TableDiffers

from .history import Past
from .identity import BatchIdentity, Source, application, ends_in, mark_application, marks_in
from .offsets import Ends
from .paths import is_table

try:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import AddAction, CommitProperties, Transaction
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

BEFORE_COMMIT = points.declare(
    "pipeline.before_table_commit", "The files of a batch are written; no table points to them."
)
AFTER_COMMIT = points.declare(
    "pipeline.after_table_commit", "The table holds the batch; Spark's checkpoint does not know it yet."
)
_TRIES = 20
_SCAN_ROWS = 1 << 15
_SOURCES = "penstock.sources"  # in each commit: which topics feed the table, so that it can be asked for them
# A reader of the log walks all commits since the last checkpoint, so that a commit costs the same at any age.
_CONFIGURATION = {"delta.checkpointInterval": "10"}


@dataclass(frozen=True, slots=True)
class Size:
    """How much a table holds, at which version."""

    version: int
    rows: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a task has written into a table's folder."""

    table: str
    name: str
    rows: int
    size: int
    stats: str


class LakeTable:
    """One Delta table as it stands at one moment."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._table = DeltaTable(self.path)

    def version_of(self, application: str) -> int | None:
        """Return the version that an application has reached."""
        return self._table.transaction_version(application)

    def is_empty(self) -> bool:
        """Return whether the table holds no files."""
        return not self._table.file_uris()

    def sources(self) -> list[Source]:
        """Return the topics that feed the table, as its last commit of ours says."""
        for limit in (1, 50, None):  # mostly it is the last one, and the others are many
            for entry in self._table.history(limit):
                if _SOURCES in entry:
                    return msgspec.json.decode(entry[_SOURCES], type=list[Source])
        return []

    def ends(self, source: Source) -> Ends:
        """Return where the table ends in each partition of a topic."""
        return ends_in(self, source.log_id, source.topic_id, source.partitions) or {}

    def size(self) -> "Size":
        """Return how much the table holds."""
        files = pa.table(self._table.get_add_actions())
        rows = files.column("num_records").to_pylist()
        return Size(self._table.version(), sum(rows), len(rows), sum(files.column("size_bytes").to_pylist()))

    def has_columns(self, names: Sequence[str]) -> bool:
        """Return whether the table has columns of these names."""
        return set(names) <= {field.name for field in self._table.schema().fields}

    def batches(self, names: Sequence[str], rows_together: int = _SCAN_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield some columns, a bounded number of rows at a time. Raises TableDamaged."""
        for uri in self._table.file_uris():
            if not Path(uri).is_file():
                raise TableDamaged(self.path, f"its file {Path(uri).name} is not there")
        try:
            rows = self._table.to_pyarrow_dataset()
            yield from rows.to_batches(
                columns=list(names), batch_size=rows_together, batch_readahead=0, fragment_readahead=0
            )
        except (OSError, pa.ArrowException, DeltaError) as exc:
            raise TableDamaged(self.path, str(exc).partition("\n")[0]) from exc

    def vacuum(self, older_than_hours: int, *, dry_run: bool) -> list[str]:
        """Remove files that no commit points to and that are older than an age; return their names."""
        return self._table.vacuum(
            older_than_hours, dry_run=dry_run, enforce_retention_duration=False, full=True
        )

    def check_schema(self, schema: pa.Schema) -> None:
        """Refuse a batch with other columns. Raises TableDiffers.

        Names and types count; comments, properties and the order that another engine gave them do not.
        """
        found, wanted = _columns(self._table.schema()), _columns(Schema.from_arrow(schema))
        if found != wanted:
            raise TableDiffers(self.path, _only(found, wanted), _only(wanted, found))

    def append(self, files: Sequence[DataFile], schema: pa.Schema, identity: BatchIdentity) -> None:
        """Add files and the batch's identity in one transaction. Raises CommitFailedError."""
        now_ms = SYSTEM.now_ms()
        transactions = [Transaction(name, version, now_ms) for name, version in identity.transactions(self)]
        self._table.create_write_transaction(
            actions=[AddAction(each.name, each.size, {}, now_ms, True, each.stats) for each in files],
            mode="append",
            schema=schema,
            partition_by=[],
            # No retry by itself: what came in between must be looked at first.
            commit_properties=CommitProperties(
                app_transactions=transactions,
                max_commit_retries=0,
                custom_metadata={_SOURCES: msgspec.json.encode(identity.sources()).decode()},
            ),
        )
        _sync(Path(self.path) / "_delta_log" / f"{self._table.version():020}.json")

    def cut_back(self, source: Source, cuts: Ends, marks: Mapping[int, int]) -> int:
        """Let the table end at other places, which it has passed: remove the rows from there on.

        Return how many. From then on it is of the source's incarnation. Rows and ends go in one commit; what
        a crash leaves is cut back again. Raises CommitFailedError.
        """
        ends, now_ms = self.ends(source), SYSTEM.now_ms()
        pairs = [(application(source.log_id, source.topic_id, p), cut) for p, cut in cuts.items()]
        pairs += [(mark_application(source.log_id, source.topic_id, p), marks.get(p, 0)) for p in cuts]
        properties = CommitProperties(
            app_transactions=[Transaction(name, version, now_ms) for name, version in pairs],
            max_commit_retries=0,
            custom_metadata={_SOURCES: msgspec.json.encode([source]).decode()},
        )
        where = [f"(partition = {p} AND offset >= {cut})" for p, cut in cuts.items() if cut < ends.get(p, 0)]
        removed = 0
        if where:
            done = self._table.delete(" OR ".join(where), commit_properties=properties)
            removed = int(done["num_deleted_rows"] or 0)
        schema = pa.schema(self._table.schema().to_arrow())
        self._table.create_write_transaction(
            actions=[], mode="append", schema=schema, partition_by=[], commit_properties=properties
        )
        return removed


def commit(path: Path, schema: pa.Schema, files: Sequence[DataFile], identity: BatchIdentity) -> bool:
    """Put a batch into a table, made if it is not there; return False if it was there already.

    Raises RangesDiffer, StateWithoutPast, TableDiffers, FilesUnseen; nothing is written then.
    """
    if not files and identity.is_nothing():
        return False
    _check_seen(path, files)
    for _ in range(_TRIES):
        table = _opened(path, schema)
        table.check_schema(schema)
        if identity.is_in(table):
            discard(files)
            return False
        points.reach(BEFORE_COMMIT)
        try:
            table.append(files, schema, identity)
        except CommitFailedError:
            continue
        points.reach(AFTER_COMMIT)
        return True
    raise PipelineFailed(f"table {path} was changed by others {_TRIES} times while a batch was to be written")


def _check_seen(path: Path, files: Sequence[DataFile]) -> None:
    """See that every file is there, whole: an executor with a disk of its own writes where nobody looks."""
    unseen = [each.name for each in files if _size(Path(each.table) / each.name) != each.size]
    if unseen:
        raise FilesUnseen(str(path), len(unseen), unseen[0])


def _size(file: Path) -> int | None:
    with suppress(OSError):
        return file.stat().st_size
    return None


def discard(files: Sequence[DataFile]) -> None:
    """Remove files that no table points to."""
    for each in files:
        with suppress(OSError):
            (Path(each.table) / each.name).unlink()


def pasts_of(table: LakeTable, topic: str) -> list[Past]:
    """Return what a table knows of the logs it has a topic of that name from."""
    found = []
    for each in table.sources():
        if each.topic == topic:
            ends = table.ends(each)
            marks = marks_in(table, each.log_id, each.topic_id, ends)
            keeper = f"table {table.path}"
            found.append(Past(keeper, each.log_id, topic, each.topic_id, each.incarnation, ends, marks))
    return found


def _opened(path: Path, schema: pa.Schema) -> LakeTable:
    if not is_table(path):
        path.mkdir(parents=True, exist_ok=True)
        with suppress(DeltaError):  # another driver made it at the same moment
            DeltaTable.create(str(path), schema, mode="ignore", configuration=_CONFIGURATION)
    return LakeTable(path)


def _columns(schema: Schema) -> dict[str, str]:
    """Return the columns of a table with their types, without what is said about them."""
    plain = _without_metadata(msgspec.json.decode(schema.to_json()))
    return {field["name"]: _type(field["type"]) for field in plain["fields"]}


def _without_metadata(form: Any) -> Any:
    if isinstance(form, dict):
        kept = {name: each for name, each in form.items() if name not in ("metadata", "nullable")}
        return {name: _without_metadata(each) for name, each in kept.items()}
    return [_without_metadata(each) for each in form] if isinstance(form, list) else form


def _type(form: Any) -> str:
    return form if isinstance(form, str) else msgspec.json.encode(form).decode()


def _only(these: Mapping[str, str], others: Mapping[str, str]) -> str:
    """Return the columns that others do not have so, in words."""
    own = [f"{name} {kind}" for name, kind in these.items() if others.get(name) != kind]
    return ", ".join(own) or "none of these"


def _sync(file: Path) -> None:
    """Bring a commit to the disk: Spark's checkpoint must not be ahead of the table after a power cut."""
    for path in (file, file.parent):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
