"""What a member takes part in: the domains it shares in, as it tells the others in its own row."""

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
    """A group, the filter of all its handlers (`filter_of`), and the topics of it that are there already."""

    id: int
    filter: Filter
    topics: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Serves:
    """Slots or not, groups, the partitions it is pinned to (None: any), and the schedules it declares.

    Those by name, each with the fingerprint of its definition.
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
        """Return the filter with which it serves a group; None when it does not."""
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
        """Return it as one that shares; slots know no pins."""
        return Participant(self.id, None if domain == SLOTS else self.serves.pins)


@lru_cache(maxsize=256)
def decode_serves(text: str) -> Serves:
    """Return what a row says; a member that says it in a way unknown to us is taken to serve nothing."""
    try:
        return msgspec.json.decode(text, type=Serves)
    except msgspec.MsgspecError:
        return NOTHING
