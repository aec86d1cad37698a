"""The names of lanes as they are stored, and the keys they stand for.

| stored            | is the lane of                                                            |
|-------------------|---------------------------------------------------------------------------|
| `o-1`             | the key o-1, or of the keyless record with that id                        |
| `##1`             | the key #1: a key that begins with # gets one more #                      |
| `#7#o-1`          | the record at offset 7 of the key o-1, on its own (`alone_name`)          |
| `#late#o-1`       | the late records of the key o-1 (`late_name`); also `#7##late#o-1`         |
| `#partition#`     | all records of the partition, where a group works it as one lane          |
| `\\x6f0a`          | a key that is not printable text, or begins with \\x: its bytes            |
"""

import re
from enum import Enum
from typing import NamedTuple

from penstock.model.record import Record

_ALONE = re.compile(r"#([0-9]+)#")
_LATE = "#late#"  # never the key late#: that is stored as ##late#
_HEX = "\\x"
WHOLE = "#partition#"  # never the key partition#: that is stored as it is; nor #partition#: ##partition#


class LaneName(NamedTuple):
    """The key of a lane, and the offset of the record that has the lane to itself, if one has.

    `late`: it is for records that were passed over before the group had a handler for them. `whole`: it is
    for all keys of the partition, and has no key itself.
    """

    key: str
    alone: int | None
    late: bool
    whole: bool = False


def lane_of(record: Record) -> str:
    """Return the lane of a record: its key, or its own id when it has no key.

    Keys that are not printable text are written in hex, since lanes are stored as text.
    """
    key = record.id if record.key is None else record.key
    if key.isprintable() and not key.startswith(_HEX):
        return key
    return _HEX + key.encode("utf-8", "surrogateescape").hex()


def stored_name(lane: str) -> str:
    """Return the name under which the machine keeps a lane it was fed."""
    return f"#{lane}" if lane.startswith("#") else lane


def alone_name(stored: str, offset: int) -> str:
    """Return the name of the lane for one record of a lane; a lane that is one already keeps its name."""
    own = f"#{offset}#"
    return stored if stored.startswith(own) else own + stored


def is_alone(stored: str, offset: int) -> bool:
    """Return whether a lane belongs to the record at this offset alone."""
    return stored.startswith(f"#{offset}#")


def shared_name(stored: str) -> str:
    """Return the name of the lane of the whole key, given the lane of one record of it."""
    alone = _ALONE.match(stored)
    return stored if alone is None else stored[alone.end() :]


def late_name(stored: str) -> str:
    """Return the name of the late lane of a key, given the name of the key's lane."""
    return _LATE + stored


def live_name(stored: str) -> str | None:
    """Return the name of a key's lane, given the name of its late lane; else None."""
    return stored.removeprefix(_LATE) if stored.startswith(_LATE) else None


def is_late(stored: str) -> bool:
    """Return whether a lane is for late records."""
    return stored[:1] == "#" and shared_name(stored).startswith(_LATE)


def read_name(stored: str) -> LaneName:
    """Return the meaning of a stored name."""
    alone = _ALONE.match(stored)
    shared = shared_name(stored)
    late = shared.startswith(_LATE)
    shared = shared.removeprefix(_LATE if late else "")
    if shared == WHOLE:
        return LaneName("", None if alone is None else int(alone[1]), late, whole=True)
    lane = shared.removeprefix("#")
    if lane.startswith(_HEX):
        lane = bytes.fromhex(lane.removeprefix(_HEX)).decode("utf-8", "surrogateescape")
    return LaneName(lane, None if alone is None else int(alone[1]), late)


class WaitState(Enum):
    """The reason why the lane of a row waits."""

    RETRYING = "retrying"  # its head failed, or asked for a retry: until it is due
    SNOOZED = "snoozed"  # its head was put off by its handler: until it is due
    REQUEUED = "requeued"  # a person has put its head back: it may go at once
    LAST = "last"  # a person has put one record back, to come after the waiting records of its key
    MOVED = "moved"  # the topic has grown: until its key is done in the partition where it was before
    SLOW = "slow"  # nothing has failed: more came than its handler could do at once
    HELD = "held"  # a dead letter holds it: until a person decides

    @property
    def text(self) -> str:
        """The reason to show where no other is known."""
        return _TEXTS.get(self, self.value)


_TEXTS = {
    WaitState.LAST: "requeued, behind what waits of its key",
    WaitState.MOVED: "behind what waits of its key in the partition where it was before the topic grew",
    WaitState.HELD: "held by a dead letter",
}
