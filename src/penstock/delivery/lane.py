"""Lanes: how they are named and stored, why a stored lane waits, and a lane in memory.

A key's lane is named by the key, as text. Any other is a `SideLane`, whose fields are the columns of a stored lane:

| column  | meaning                                                                                     |
|---------|---------------------------------------------------------------------------------------------|
| `lane`  | the key, or the id of a record without one; `\\x6f0a`, the bytes of a key that is not        |
|         | printable text or begins with \\x; empty for a lane of all keys                              |
| `whole` | the lane holds all records of the partition, which the group works as one lane              |
| `late`  | its records were passed over before the group had a handler for them                        |
| `alone` | the offset of the only record in it, apart from the others of its key; -1: there is no such |
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from penstock.model.record import Record

SHARED = -1  # `alone` of a lane that is for all records of its key
LANE_COLUMNS = "lane whole late alone"
_HEX = "\\x"


class SideLane(NamedTuple):
    """A lane that is not simply that of a key. Ordered, and unpacked, as the columns are."""

    lane: str
    whole: bool = False
    late: bool = False
    alone: int = SHARED

    @property
    def key(self) -> str:
        """The key, as the record has it."""
        if self.lane.startswith(_HEX):
            return bytes.fromhex(self.lane.removeprefix(_HEX)).decode("utf-8", "surrogateescape")
        return self.lane


LaneId: TypeAlias = str | SideLane
WHOLE = SideLane("", whole=True)


class WaitState(Enum):
    """Why the lane of a row waits. The state decides; the reason beside it is only for people to read."""

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


@dataclass(slots=True)
class LaneQueue:
    """The records of one key. `waiting` are offsets, oldest first, including those that are out."""

    key: LaneId
    waiting: list[int] | deque[int]  # a deque once it is stored and may grow long
    stored: bool = False  # its offsets are entries, the cursor may pass them
    state: WaitState = WaitState.SLOW  # why it waits, once it is stored
    out: int = 0  # how many of `waiting`, from the first on, are handed out
    left: int = 0  # how many records have left it, while stored, since the last settlement
    resting: bool = False  # held, or waiting until it is due
    failures: int = 0
    due_ms: int = 0
    reason: str = ""  # for people; nothing here depends on it
    late: bool = False  # its records were passed over before the group had a handler for them

    @property
    def held(self) -> bool:
        """Whether it waits for a person's decision."""
        return self.state is WaitState.HELD


class StoredLane(NamedTuple):
    """A waiting lane as its row holds it."""

    key: LaneId
    state: WaitState
    failures: int
    due_ms: int
    reason: str

    @property
    def held(self) -> bool:
        """Whether it waits for a person's decision."""
        return self.state is WaitState.HELD


def lane_of(record: Record) -> str:
    """Return the lane of a record: its key, or its own id when it has no key."""
    return key_lane(record.id if record.key is None else record.key)


def key_lane(key: str) -> str:
    """Return the lane of a key; one that is not printable text is written in hex."""
    if key.isprintable() and not key.startswith(_HEX):
        return key
    return _HEX + key.encode("utf-8", "surrogateescape").hex()


def columns_of(lane: LaneId) -> SideLane:
    """Return the columns of a lane."""
    return SideLane(lane) if isinstance(lane, str) else lane


def stored_lane(lane: str, whole: object, late: object, alone: int) -> LaneId:
    """Return the lane of a row; undoes `columns_of`."""
    if whole or late or alone != SHARED:
        return SideLane(lane, bool(whole), bool(late), alone)
    return lane


def alone_in(lane: LaneId, offset: int) -> SideLane:
    """Return the lane that one record of a lane has to itself."""
    return columns_of(lane)._replace(alone=offset)


def is_alone(lane: LaneId, offset: int) -> bool:
    """Return whether a lane belongs to the record at this offset alone."""
    return not isinstance(lane, str) and lane.alone == offset


def shared_lane(lane: LaneId) -> LaneId:
    """Return the lane for all records of the key, given that of one record of it."""
    return lane if isinstance(lane, str) else stored_lane(*lane._replace(alone=SHARED))


def late_lane(lane: LaneId) -> SideLane:
    """Return the late lane of a key, given the key's lane."""
    return columns_of(lane)._replace(late=True)


def live_lane(lane: LaneId) -> LaneId | None:
    """Return the lane of a key, given its late lane; None for any other lane."""
    if isinstance(lane, str) or not lane.late or lane.alone != SHARED:
        return None
    return stored_lane(*lane._replace(late=False))


def is_late(lane: LaneId) -> bool:
    """Return whether a lane is for late records."""
    return not isinstance(lane, str) and lane.late


def lane_queue(stored: StoredLane, offsets: Iterable[int]) -> LaneQueue:
    """Return a lane from its row and its entries."""
    waiting, late, values = deque(sorted(offsets)), is_late(stored.key), stored._asdict()
    return LaneQueue(**values, waiting=waiting, stored=True, resting=stored.held, late=late)
