"""The values in listings of groups."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .catch_up import PassedOverType


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """A group on one topic.

    `lag`: offsets it has not passed. `oldest_unread_at`: when the oldest of these was published. `waiting`:
    lanes that wait for a retry or their turn; `held`: lanes that wait for a person.
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
    """A group with the sums over its topics. `members`: how many serve it now.

    `kind`: `handler`; `client` for a group that only stores its offsets, and retention does not wait for it;
    `pipeline` for a reader that is not a group, such as a lake, and retention waits for it.
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

    `passed_over`: the types that it has, or once had, no handler for. `stopping_ids`: the members that finish
    their calls and take no new records. `created_at` is None for a pipeline.
    """

    group: Group
    created_at: datetime | None
    filter: tuple[str, ...]
    member_ids: tuple[str, ...]
    on_topics: tuple[GroupTopic, ...]
    passed_over: tuple[PassedOverType, ...] = ()
    stopping_ids: tuple[str, ...] = ()


def oldest_of(topics: Iterable[GroupTopic]) -> datetime | None:
    """Return when the oldest unread record on these topics was published."""
    moments = (each.oldest_unread_at for each in topics)
    return min((each for each in moments if each is not None), default=None)
