"""Rights, and the resources they apply to."""

from enum import StrEnum
from typing import NamedTuple


class AccessRight(StrEnum):
    """A right that a principal may have."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"


class ResourceKind(StrEnum):
    """A kind of resource."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTION = "transaction"  # a transactional id of Kafka clients
    CLUSTER = "cluster"  # the store as a whole: its brokers, its rules, its series


class Resource(NamedTuple):
    """The object of a right. The cluster has no name."""

    kind: ResourceKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else str(self.kind)


CLUSTER = Resource(ResourceKind.CLUSTER)


def topic(name: str) -> Resource:
    """Return the resource of a topic."""
    return Resource(ResourceKind.TOPIC, name)


def group(name: str) -> Resource:
    """Return the resource of a group."""
    return Resource(ResourceKind.GROUP, name)


def transaction(name: str) -> Resource:
    """Return the resource of a transactional id."""
    return Resource(ResourceKind.TRANSACTION, name)
