"""Who asks, and whether they may: the one question of every request. Today everybody may do everything."""

from enum import StrEnum
from typing import NamedTuple, Protocol


class Principal(NamedTuple):
    """Who is at the other end of a connection."""

    name: str
    address: str


ANONYMOUS = "anonymous"


class AccessRight(StrEnum):
    """What somebody wants to do."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"


class Resource(NamedTuple):
    """What somebody wants to do it to: a topic, a group, a transactional id, or the cluster itself."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


CLUSTER = Resource("cluster", "kafka")


def topic(name: str) -> Resource:
    """Return a topic."""
    return Resource("topic", name)


def group(name: str) -> Resource:
    """Return a group."""
    return Resource("group", name)


def transaction(name: str) -> Resource:
    """Return a transactional id."""
    return Resource("transactional id", name)


class AccessRules(Protocol):
    """Who may do what."""

    def allowed(self, principal: Principal, action: AccessRight, resource: Resource) -> bool:
        """Return whether somebody may do something."""


class Open:
    """Everybody may do everything: for loopback, and for networks that are closed themselves."""

    def allowed(self, principal: Principal, action: AccessRight, resource: Resource) -> bool:
        """Return True."""
        return True
