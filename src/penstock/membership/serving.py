"""The domains that a member shares in, as it announces them to the others in its own row."""

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
    """Whether it shares slots, its groups, the partitions it is pinned to (None: any), and its schedules.

    The schedules are names, each with the fingerprint of its definition.
    """

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
