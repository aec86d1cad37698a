"""What somebody wants to do, and to what."""

from enum import StrEnum
from typing import NamedTuple


class AccessRight(StrEnum):
    """What somebody wants to do."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"


class ResourceKind(StrEnum):
    """What there is."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTION = "transaction"  # a transactional id of Kafka clients
    CLUSTER = "cluster"  # the store as a whole: its brokers, its rules, its series


class Resource(NamedTuple):
    """What somebody wants to do it to. The cluster has no name."""

    kind: ResourceKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else str(self.kind)


CLUSTER = Resource(ResourceKind.CLUSTER)


def topic(name: str) -> Resource:
    """Return a topic."""
    return Resource(ResourceKind.TOPIC, name)


def group(name: str) -> Resource:
    """Return a group."""
    return Resource(ResourceKind.GROUP, name)


def transaction(name: str) -> Resource:
    """Return a transactional id."""
    return Resource(ResourceKind.TRANSACTION, name)
