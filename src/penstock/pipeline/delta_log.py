"""The application transactions of a Delta table at a version, all of them in one reading of its log.

delta-rs answers for one application at a time and walks the log for each, a millisecond or more; a lake asks
for each of 256 partitions. So the log is read here: the checkpoint's column `txn`, then the commits after it.
A log of a form that is not known here (a checkpoint in parts, of the second kind) is left to delta-rs.

| file                                 | holds                                                        |
|--------------------------------------|--------------------------------------------------------------|
| `_last_checkpoint`                   | JSON: the version of a checkpoint, and of what form it is     |
| `<version:020>.checkpoint.parquet`   | the state at a version; `txn` is a struct, null in most rows  |
| `<version:020>.json`                 | a commit: one action as JSON a line; one kind of it is `txn`  |
"""

from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import MissingExtra

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_TXN = b'"txn"'


def applications(table: Path, version: int) -> dict[str, int] | None:
    """Return the version that each application has reached; None: ask delta-rs."""
    log = table / "_delta_log"
    try:
        start = _checkpoint_version(log, version)
        found = {} if start is None else _of_checkpoint(log / f"{start:020}.checkpoint.parquet")
        for number in range(0 if start is None else start + 1, version + 1):
            found.update(_of_commit(log / f"{number:020}.json"))
    except (OSError, pa.ArrowException, msgspec.DecodeError, KeyError, TypeError):
        return None  # removed or replaced while it was read, or written by somebody in another form
    return found


def _checkpoint_version(log: Path, version: int) -> int | None:
    """Return the last checkpoint up to a version, in the form that is known here."""
    try:
        last: dict[str, Any] = msgspec.json.decode((log / "_last_checkpoint").read_bytes())
    except FileNotFoundError:
        return None
    if last["version"] > version or (last.get("parts") or 1) > 1 or "v2Checkpoint" in last:
        raise KeyError("another form")
    return int(last["version"])


def _of_checkpoint(file: Path) -> dict[str, int]:
    rows = pq.read_table(file, columns=["txn"]).column("txn").drop_null()
    return {each["appId"]: each["version"] for each in rows.to_pylist() if each["appId"] is not None}


def _of_commit(file: Path) -> dict[str, int]:
    found = {}
    for line in file.read_bytes().splitlines():
        if _TXN in line:
            action = msgspec.json.decode(line).get("txn")
            if action is not None:
                found[action["appId"]] = action["version"]
    return found
