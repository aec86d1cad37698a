"""The interface of a table of any format: its rows and files, its properties, and its transactions.

`kinds.py` chooses the format by the folder. Rows and the identity of their batch go into a table in one transaction,
which fails with deltalake's CommitFailedError, whatever the format, if another commit came after the table was read.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
import pyarrow as pa
from deltalake import Schema
from deltalake.exceptions import CommitFailedError

from penstock.errors import TableDamaged, TableDiffers

from ..history import Past
from ..offsets import Ends
from .identity import BatchIdentity, Source, Transactions, application, mark_application, name_application, name_version
from .paths import rebuild_command
from .storage import Location, location, storage_of

ROWS, FILES = "penstock.rows", "penstock.files"  # in each commit: how many it added
SOURCES = "penstock.sources"  # in each commit: the topics that feed the table
OF_LAKE = "penstock.lake"  # in each commit to a table whose position the mark of a lake keeps
SCAN_ROWS, SCAN_BYTES = 1 << 15, 32 << 20

T = TypeVar("T")
PartOf = Mapping[str, str | None]  # partition column → value
Titles = Sequence[str]
Texts = Mapping[str, str]
NO_TEXTS: Texts = {}


class TableRules(msgspec.Struct, frozen=True):
    """`checks`: conditions in SQL, by name. `filled`: columns that are never NULL."""

    checks: dict[str, str] = {}
    filled: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return them in words."""
        said = [f"{name} CHECK ({sql})" for name, sql in self.checks.items()]
        return ", ".join((*said, *(f"{name} NOT NULL" for name in self.filled))) or "none now"


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a table at a version."""

    version: int
    rows: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a task has written into a table's folder. `part`: its partition."""

    table: str
    name: str
    rows: int
    size: int
    stats: str
    part: PartOf = field(default_factory=dict)

    @property
    def path(self) -> Location:
        """Where the file is."""
        return location(self.table) / self.name


class TableFile(NamedTuple):
    """A file that a table points to, by its path below the table's folder."""

    part: PartOf
    name: str
    rows: int
    size: int


class Table(ABC):
    """One table at the moment of the first access."""

    parts_in_files = False  # whether its files contain the partition columns, too

    def __init__(self, path: Location) -> None:
        self.folder, self.path, self._storage = path, str(path), storage_of(path)
        # Whether a commit reported as failed may still take effect; its files are left to `vacuum` then.
        self.settles_late = self._storage.settles_late

    @classmethod
    @abstractmethod
    def opened(cls, path: Location, schema: pa.Schema, properties: Texts = NO_TEXTS, partition_by: Titles = ()) -> Self:
        """Return the table at a path, made with these columns and properties if there is none."""

    @abstractmethod
    def version(self) -> int:
        """Return the number of the last commit."""

    def moment(self) -> str:
        """Return a text that changes with each commit to the table."""
        return str(self.version())

    @abstractmethod
    def version_of(self, application: str) -> int | None:
        """Return the version that an application has reached. Raises EndsLost."""

    @abstractmethod
    def files(self) -> list[TableFile]:
        """Return the files that the table points to."""

    @abstractmethod
    def partition_columns(self) -> list[str]:
        """Return the partition columns of the table."""

    @abstractmethod
    def configuration(self) -> dict[str, str]:
        """Return the properties of the table."""

    @abstractmethod
    def rules(self, *, rewrites: bool) -> TableRules:
        """Return the rules for every row. `rewrites`: whether files are to be rewritten. Raises TableAsksMore."""

    @abstractmethod
    def schema_form(self) -> dict[str, Any]:
        """Return the columns in Delta's own form."""

    def form_of(self, schema: pa.Schema) -> dict[str, Any]:
        """Return in that form the columns that the table would have for a schema."""
        return delta_form(schema)

    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """Return the columns as an Arrow schema."""

    @abstractmethod
    def add_columns(self, schema: pa.Schema, names: Sequence[str]) -> None:
        """Add some columns of a schema, or fields of theirs, to the table. Raises CommitFailedError."""

    @abstractmethod
    def batches(self, names: Sequence[str], rows_together: int = SCAN_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield some columns, in batches bounded in rows and roughly in bytes. Raises TableDamaged, StorageAway."""

    @abstractmethod
    def compact(self, file_bytes: int) -> tuple[int, int]:
        """Join files smaller than a size; return how many, and into how many. Raises CommitFailedError."""

    @abstractmethod
    def commits(self, at_most: int) -> list[dict[str, Any]]:
        """Return the last commits, newest first, in the form of Delta's log."""

    @abstractmethod
    def vacuum(self, older_than_hours: int, *, dry_run: bool) -> list[str]:
        """Remove files older than an age that no commit points to; return their names."""

    @abstractmethod
    def purge(self, older_than_hours: int) -> list[str]:
        """Remove the whole past of the table: older versions, their files and metadata.

        Files that no version ever pointed to go if they are older than an age. Return the removed data files.
        """

    @abstractmethod
    def commit(self, added: Sequence[DataFile], removed: Titles, transactions: Transactions, notes: Texts) -> None:
        """Add and remove files, with transactions and notes, in one commit. Raises CommitFailedError, TableAsksMore."""

    def drop(self) -> None:  # noqa: B027 - a table is known by its folder alone, unless a format overrides this
        """Remove the table from its catalog, if it has one; the caller removes its folder afterwards."""

    def replace(self, added: Sequence[DataFile], removed: Sequence[str], identity: BatchIdentity | None = None) -> None:
        """Add files and remove others, with the identity of a batch, if any. Raises CommitFailedError."""
        transactions, notes = Transactions(), {ROWS: str(sum(each.rows for each in added)), FILES: str(len(added))}
        if identity is not None:
            transactions = identity.transactions(self)
            notes[SOURCES] = msgspec.json.encode(identity.sources()).decode()
            notes |= {OF_LAKE: "true"} if identity.of_lake else {}
        self.commit(added, removed, transactions, notes)

    def declare(
        self, source: Source, ends: Ends, marks: Mapping[int, int], added: Sequence[DataFile] = (), removed: Titles = ()
    ) -> None:
        """Record in the table, with a change of files, that it ends there in a topic. Raises CommitFailedError."""
        where = source.log_id, source.topic_id
        pairs = [(application(*where, p), end) for p, end in ends.items()]
        pairs += [(mark_application(*where, p), marks.get(p, 0)) for p in ends]
        pairs.append((name_application(source.topic), name_version(*where)))
        self.commit(added, removed, pairs, {SOURCES: msgspec.json.encode([source]).decode()})

    def file_names(self) -> set[str]:
        """Return the files that the table points to, as paths below its folder."""
        return {each.name for each in self.files()}

    def is_empty(self) -> bool:
        """Return whether the table holds no files."""
        return not self.files()

    def size(self) -> Size:
        """Return the size of the table."""
        files = self.files()
        return Size(self.version(), sum(each.rows for each in files), len(files), sum(each.size for each in files))

    def sources(self) -> list[Source]:
        """Return the topics that feed the table, as our last commit names them."""
        return msgspec.json.decode(self.configuration().get(SOURCES, "[]"), type=list[Source])

    def is_of_lake(self) -> bool:
        """Return whether it was committed to as one of several tables whose common position a mark keeps."""
        return OF_LAKE in self.configuration()

    def ends(self, source: Source) -> Ends:
        """Return the offset up to which the table holds each partition of a topic."""
        if not self.is_fed_by(source):
            return {}
        names = (application(source.log_id, source.topic_id, p) for p in range(source.partitions))
        return {p: self.version_of(name) or 0 for p, name in enumerate(names)}  # one added later begins at 0

    def is_fed_by(self, source: Source) -> bool:
        """Return whether the table holds records of a topic, or a position in it."""
        return self.version_of(application(source.log_id, source.topic_id, 0)) is not None

    def has_columns(self, names: Sequence[str]) -> bool:
        """Return whether the table has columns of these names."""
        return set(names) <= {field["name"] for field in self.schema_form()["fields"]}

    def check_schema(self, schema: pa.Schema) -> None:
        """Refuse a batch with other columns. Raises TableDiffers.

        Also one of another partitioning, where partitions are columns. Titles and types count; comments,
        properties and column order do not. Columns that other engines have added are NULL in our rows.
        """
        found, wanted = types_of(self.schema_form()), types_of(self.form_of(schema))
        needed = {name: found[name] for name in found if name in {*wanted, *self.partition_columns()}}
        if needed != wanted:
            ours = [name for name, kind in wanted.items() if found.get(name) != kind]
            theirs = [name for name, kind in found.items() if wanted.get(name) != kind]
            said = said_types(found, theirs), said_types(wanted, ours)
            raise TableDiffers(self.path, *said, rebuild_command(self.folder))

    def damaged(self, why: str) -> TableDamaged:
        """Return the error of a table that cannot be read."""
        return TableDamaged(self.path, why, rebuild_command(self.folder))


def until_committed(work: Callable[[], T], tries: int = 20) -> T:
    """Call a function again as long as other commits come first. Raises CommitFailedError."""
    for _ in range(tries - 1):
        with suppress(CommitFailedError):
            return work()
    return work()


def pasts_of(table: Table, topic: str) -> list[Past]:
    """Return a table's knowledge of each log that has fed it a topic of this name."""
    return [past_of(table, each) for each in table.sources() if each.topic == topic]


def past_of(table: Table, source: Source) -> Past:
    """Return a table's knowledge of a topic that feeds it, or once did."""
    ends = table.ends(source)
    found = {p: table.version_of(mark_application(source.log_id, source.topic_id, p)) for p, end in ends.items() if end}
    marks = {p: mark for p, mark in found.items() if mark is not None}
    return Past(f"table {table.path}", source.log_id, source.topic, source.topic_id, source.incarnation, ends, marks)


def delta_form(schema: pa.Schema) -> dict[str, Any]:
    """Return columns in Delta's form, in which all tables are compared."""
    return msgspec.json.decode(Schema.from_arrow(schema).to_json(), type=dict[str, Any])


def types_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a table with their types, without their metadata."""
    return {field["name"]: field["type"] for field in _without_metadata(schema)["fields"]}


def _without_metadata(form: Any) -> Any:
    if isinstance(form, dict):
        kept = {name: each for name, each in form.items() if name not in ("metadata", "nullable")}
        return {name: _without_metadata(each) for name, each in kept.items()}
    return [_without_metadata(each) for each in form] if isinstance(form, list) else form


def said_types(types: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return in words the columns of some names, as far as there are any."""
    forms = ((name, types[name]) for name in names if name in types)
    words = (f"{name} {form if isinstance(form, str) else msgspec.json.encode(form).decode()}" for name, form in forms)
    return ", ".join(words) or "none of these"
