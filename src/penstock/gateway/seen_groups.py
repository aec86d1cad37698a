"""A topic as a caller may see it: without the names of groups that the caller may not know of."""

from collections.abc import Callable
from dataclasses import replace

from penstock.access.resource import Resource, group
from penstock.operate.topics import TopicShown


def of_groups_seen(shown: TopicShown, sees: Callable[[Resource], bool]) -> TopicShown:
    """Return a topic with the groups that the caller sees."""
    return replace(shown, groups=tuple(each for each in shown.groups if sees(group(each))))
