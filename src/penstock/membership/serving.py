"""The row of a member: the domains it shares in, and its status.

Each heartbeat writes the status, so that other processes can tell why work waits there. It covers only conditions that
last, within bounds: a heartbeat costs the same in every condition.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from .assignment import Participant
from .filters import Filter


@dataclass(frozen=True, slots=True, order=True)
class Domain:
    """Rows that are shared among members: the slots, or a group's partitions of one topic."""

    group_id: int = 0  # none: ids begin at 1
    topic_id: int = 0

    @property
    def name(self) -> str:
        """Return the name of its row."""
        return f"group/{self.group_id}/{self.topic_id}" if self.group_id else "slots"


SLOTS = Domain()


@dataclass(frozen=True, slots=True)
class ServedGroup:
    """A group, the filter of all its handlers (`filter_of`), and those of its topics that exist already."""

    id: int
    filter: Filter
    topics: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Serves:
    """Whether it shares slots, its groups, its pins (None: any partition), and schedules with fingerprints."""

    slots: bool = False
    groups: tuple[ServedGroup, ...] = ()
    pins: frozenset[int] | None = None
    schedules: tuple[tuple[str, str], ...] = ()

    def domains(self) -> Iterator[Domain]:
        """Yield every domain it shares in."""
        if self.slots:
            yield SLOTS
        yield from (Domain(group.id, topic) for group in self.groups for topic in group.topics)

    def filter(self, group_id: int) -> Filter | None:
        """Return the filter with which it serves a group; None when it does not serve it."""
        return next((group.filter for group in self.groups if group.id == group_id), None)

    def encode(self) -> str:
        """Return it as JSON."""
        return msgspec.json.encode(self, order="deterministic").decode()


NOTHING = Serves()


@dataclass(frozen=True, slots=True)
class Present:
    """A living member as the others see it."""

    id: str
    age_ms: int
    serves: Serves

    def share_in(self, domain: Domain) -> Participant:
        """Return it as a participant in a domain; pins do not apply to slots."""
        return Participant(self.id, None if domain == SLOTS else self.serves.pins)


@lru_cache(maxsize=256)
def decode_serves(text: str) -> Serves:
    """Return the content of a row; a member whose text is in an unknown form counts as serving nothing."""
    try:
        return msgspec.json.decode(text, type=Serves)
    except msgspec.MsgspecError:
        return NOTHING


class CallStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """One long-running call: its handler, the place of its record, its start, and its time limit."""

    handler: str
    place: str
    since_ms: int
    timeout_seconds: float | None = None


class LimitStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """A handler whose own limit makes records wait: until its rate allows a call, or (None) for `concurrency`."""

    handler: str
    match: tuple[str, ...]
    bound: str
    waiting: int
    until_ms: int | None = None


class GroupStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member's status of one group.

    `calls`: the long-running ones, the oldest first. `waiting`: records that wait for a thread, while `running` calls
    are in progress. `hung`: calls whose threads were abandoned, most of them of `handler`, the first since `since_ms`.
    `given_up`: it is not served here, because too many hang.
    """

    name: str
    calls: tuple[CallStatus, ...] = ()
    running: int = 0
    waiting: int = 0
    limits: tuple[LimitStatus, ...] = ()
    hung: int = 0
    handler: str = ""
    since_ms: int | None = None
    given_up: bool = False


class MemberStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member's status.

    `trial_since_ms`: since when it starts no other record than a suspect. `troubles`: by the name of each waiting loop,
    the error it waits on. `polls`: why it does not listen for the bell; empty while it does.
    """

    groups: tuple[GroupStatus, ...] = ()
    trial_since_ms: int | None = None
    troubles: dict[str, str] = {}
    polls: str = ""

    def group(self, name: str) -> GroupStatus:
        """Return the status of a group."""
        return next((each for each in self.groups if each.name == name), GroupStatus(name))

    def encode(self) -> str | None:
        """Return it as JSON; None when there is nothing to report."""
        return None if self == SILENT else msgspec.json.encode(self, order="deterministic").decode()


SILENT = MemberStatus()


def decode_status(text: str | None) -> MemberStatus:
    """Return the status in a row; a status in a form unknown to this version counts as none."""
    if text is None:
        return SILENT
    try:
        return msgspec.json.decode(text, type=MemberStatus)
    except msgspec.MsgspecError:
        return SILENT
