"""Groups as listings show them: values."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .catch_up import PassedOverType


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """A group on one topic.

    `lag`: offsets it has not passed. `oldest_unread_at`: when the oldest of these was published. `waiting`:
    lanes that wait by themselves; `held`: lanes that wait for a person.
    """

    topic: str
    partitions: int
    lag: int
    oldest_unread_at: datetime | None
    waiting: int
    held: int
    dead: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group as a whole: the sums over its topics. `members`: how many serve it now.

    `kind`: handler; client for one that only stores where it is, for which retention does not wait; pipeline
    for a reader that is no group, such as a lake, for which it does.
    """

    name: str
    topics: tuple[str, ...]
    lag: int
    oldest_unread_at: datetime | None
    waiting: int
    held: int
    dead: int
    members: int
    paused_at: datetime | None
    filter_version: int
    kind: Literal["handler", "client", "pipeline"] = "handler"


@dataclass(frozen=True, slots=True)
class GroupShown:
    """A group with its topics one by one, the filter of its handlers, and the members that serve it.

    `passed_over`: the types that it has no handler for, or had none for once. `stopping_ids`: those of the
    members that end what they have and take nothing more. When a pipeline came is not known.
    """

    group: Group
    created_at: datetime | None
    filter: tuple[str, ...]
    member_ids: tuple[str, ...]
    on_topics: tuple[GroupTopic, ...]
    passed_over: tuple[PassedOverType, ...] = ()
    stopping_ids: tuple[str, ...] = ()


def oldest_of(topics: Iterable[GroupTopic]) -> datetime | None:
    """Return when the oldest record was published that is unread on some topics."""
    moments = (each.oldest_unread_at for each in topics)
    return min((each for each in moments if each is not None), default=None)
