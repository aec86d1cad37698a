"""The log of a Delta table: reads its application transactions and columns, and writes commits.

delta-rs loads the list of all files of a table before it answers anything, and again after each commit: the
cost of a commit would grow with the number of files. It answers for one application at a time, and a lake
asks for each of 256 partitions. So this module reads the log: some columns of the checkpoint, then the
commits after it. Logs of other forms (a checkpoint in parts or of the second kind) are left to delta-rs. All
our commits of rows are written here, whoever has read the log.

| file                                 | holds                                                        |
|--------------------------------------|--------------------------------------------------------------|
| `_last_checkpoint`                   | JSON: the version and form of the last checkpoint             |
| `<version:020>.checkpoint.parquet`   | the state at a version; each column a kind of action         |
| `<version:020>.json`                 | a commit: one action as JSON a line                           |
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from penstock.clock import SYSTEM

from ..storage import Location, storage_of

_KINDS = ("txn", "metaData", "protocol")
_MARKERS = tuple(f'"{kind}"'.encode() for kind in _KINDS)
_INTERVAL = 10
# The time of an application transaction: `delta.setTransactionRetentionDuration` lets engines drop old ones.
KEPT_MS = 253402300799999


class Txn(msgspec.Struct):
    """The version that an application has reached."""

    appId: str  # noqa: N815 - Delta's names
    version: int


class FileFormat(msgspec.Struct):
    """The format of a table's files."""

    provider: str = "parquet"
    options: dict[str, str | None] = {}


class MetaData(msgspec.Struct):
    """The `metaData` action: columns, partitioning and properties of a table."""

    schemaString: str  # noqa: N815
    partitionColumns: list[str] = []  # noqa: N815
    configuration: dict[str, str | None] = {}
    id: str = ""
    name: str | None = None
    description: str | None = None
    format: FileFormat = msgspec.field(default_factory=FileFormat)
    createdTime: int | None = None  # noqa: N815


class Protocol(msgspec.Struct):
    """The `protocol` action: the features that a reader and a writer must support."""

    minReaderVersion: int  # noqa: N815
    minWriterVersion: int  # noqa: N815
    readerFeatures: list[str] | None = None  # noqa: N815
    writerFeatures: list[str] | None = None  # noqa: N815


class _LogLine(msgspec.Struct):
    txn: Txn | None = None
    metaData: MetaData | None = None  # noqa: N815
    protocol: Protocol | None = None


@dataclass
class LogState:
    """A table's log at a version. `applications` None: only delta-rs knows them."""

    version: int
    applications: dict[str, int] | None
    metadata: MetaData
    protocol: Protocol

    def checkpoint_is_due(self) -> bool:
        """Return whether the table's own checkpoint is due at this version."""
        return (self.version + 1) % int(self.metadata.configuration.get("delta.checkpointInterval") or _INTERVAL) == 0


def read_log(table: Location, version: int | None = None) -> LogState | None:
    """Return the state at a version, or at the last one; None: ask delta-rs."""
    log, applications = table / "_delta_log", dict[str, int]()
    metadata: MetaData | None = None
    protocol: Protocol | None = None
    actions: list[_LogLine] | None = []
    try:
        start = _checkpoint_version(log, version)
        at = -1 if start is None else start
        if start is not None:
            actions = _checkpoint(log / f"{start:020}.checkpoint.parquet")
        while actions is not None:
            for action in actions:
                if action.txn is not None:
                    applications[action.txn.appId] = action.txn.version
                metadata, protocol = action.metaData or metadata, action.protocol or protocol
            actions = None if at == version else _commit(log / f"{at + 1:020}.json")
            at += 0 if actions is None else 1
    except (OSError, pa.ArrowException, msgspec.DecodeError, KeyError, TypeError):
        return None  # removed or replaced while it was read, or of another form
    if metadata is None or protocol is None or version not in (None, at):
        return None
    return LogState(at, applications, metadata, protocol)


_decode = msgspec.json.Decoder(_LogLine).decode


def _commit(file: Location) -> list[_LogLine] | None:
    with suppress(FileNotFoundError):
        lines = file.read_bytes().splitlines()
        return [_decode(line) for line in lines if any(marker in line for marker in _MARKERS)]
    return None


def _checkpoint_version(log: Location, version: int | None) -> int | None:
    """Return the version of the last checkpoint; KeyError: it is of another form, or later than wanted."""
    last = _last_checkpoint(log)
    if last is None:
        return None
    later = version is not None and last["version"] > version
    if later or (last.get("parts") or 1) > 1 or "v2Checkpoint" in last:
        raise KeyError("another form")
    return int(last["version"])


def _last_checkpoint(log: Location) -> dict[str, Any] | None:
    with suppress(FileNotFoundError):
        return msgspec.json.decode((log / "_last_checkpoint").read_bytes(), type=dict[str, Any])
    named = [each.name.partition(".")[0] for each in log.glob("*.checkpoint*") if each.is_file()]
    versions = [int(each) for each in named if each.isdecimal()]
    # Its form is unknown, and commits before it may have been cleaned up.
    return {"version": max(versions), "v2Checkpoint": None} if versions else None


def _checkpoint(file: Location) -> list[_LogLine]:
    with storage_of(file).parquet(file) as source:
        rows = source.read(columns=list(_KINDS))
    return [
        msgspec.convert({kind: _given(form)}, _LogLine)
        for kind in _KINDS
        for form in rows.column(kind).drop_null().to_pylist(maps_as_pydicts="strict")
        if kind != "txn" or form["appId"] is not None
    ]


def _given(form: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _given(each) if name == "format" else each for name, each in form.items() if each is not None}


def write_commit(
    table: Location,
    state: LogState,
    actions: Iterable[Mapping[str, Any]],
    transactions: Sequence[tuple[str, int]],
    notes: Mapping[str, str],
    properties: Mapping[str, str] | None = None,
) -> LogState:
    """Write the commit after a state, to the disk; return the state after it.

    `actions`: Delta's `add` and `remove` actions. `properties`: set in the same commit; concurrent commits of
    others must then be repeated. Raises CommitFailedError if that version exists already.
    """
    now_ms, version, metadata = SYSTEM.now_ms(), state.version + 1, state.metadata
    how = {"mode": "Append", "partitionBy": msgspec.json.encode(metadata.partitionColumns).decode()}
    info = {"timestamp": now_ms, "operation": "WRITE", "operationParameters": how, "engineInfo": "penstock"}
    lines = [{"commitInfo": info | dict(notes)}, *actions]
    lines += [{"txn": {"appId": name, "version": end, "lastUpdated": KEPT_MS}} for name, end in transactions]
    if properties:
        metadata = msgspec.structs.replace(metadata, configuration=metadata.configuration | dict(properties))
        lines.append({"metaData": msgspec.to_builtins(metadata)})
    _put(table / "_delta_log" / f"{version:020}.json", b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    known = state.applications
    return LogState(version, None if known is None else known | dict(transactions), metadata, state.protocol)


def _put(file: Location, commit: bytes) -> None:
    """Create a commit, whole and durable, unless its version exists, or existed and was cleaned up.

    Checks again afterwards: a put may wait, and find its name free because old commits, which readers pass, are gone.
    """
    try:
        _refuse_passed(file)
        storage_of(file).put_new(file, commit)
        _refuse_passed(file)
    except FileExistsError as exc:
        raise CommitFailedError(f"{file.name} is there already") from exc


def _refuse_passed(file: Location) -> None:
    last = _last_checkpoint(file.parent)
    if last is not None and last["version"] >= int(file.name.partition(".")[0]):
        raise FileExistsError
