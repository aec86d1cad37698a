"""The compaction policy of a topic: the file `policy` in its folder, read before every pass of upkeep.

A JSON object `{"compact": true, "tombstone_ms": 86400000}` and its checksum; without the file a topic is not
compacted. Any process may replace it; the writer applies it from its next pass on.
"""

from pathlib import Path

import msgspec

from ..contract import Compaction
from .checked_text import decode_checked, encode_checked
from .disk import Disk, read_whole, write_whole

NAME = "policy"


class _Policy(msgspec.Struct, frozen=True):
    compact: bool = False
    tombstone_ms: int = 0


def read_policy(disk: Disk, folder: Path) -> Compaction | None:
    """Return how a topic is compacted; None if it is not. Raises ValueError for a damaged file."""
    content = read_whole(disk, folder / NAME)
    if content is None:
        return None
    try:
        found = msgspec.json.decode(decode_checked(content) or b"", type=_Policy)
    except msgspec.MsgspecError as exc:
        raise ValueError(f"{folder / NAME} is damaged ({exc}): set the topic's compaction again") from exc
    return Compaction(found.tombstone_ms) if found.compact else None


def has_policy(disk: Disk, folder: Path) -> bool:
    """Return whether a topic is or was compacted."""
    return read_whole(disk, folder / NAME) is not None


def write_policy(disk: Disk, folder: Path, policy: Compaction | None) -> None:
    """Set the compaction of a topic."""
    disk.make_folder(folder)
    stored = _Policy() if policy is None else _Policy(True, policy.tombstone_ms)
    write_whole(disk, folder / NAME, encode_checked(msgspec.json.encode(stored)))
