"""One call of a method: its principal, and the check of its rights."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from penstock.access.principal import Principal
from penstock.access.resource import AccessRight, Resource, topic
from penstock.errors import Unauthenticated
from penstock.log.store import Store
from penstock.model.record import TRACEPARENT, Record

if TYPE_CHECKING:
    from .door import GrpcDoor

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GrpcCall:
    """A call, as a method sees it. In the event loop of the door."""

    door: "GrpcDoor"
    principal: Principal
    metadata: dict[str, str | bytes]

    @property
    def store(self) -> Store:
        """The store of this door."""
        return self.door.store

    @property
    def actor(self) -> str:
        """The actor in the audit."""
        return f"grpc:{self.principal.name}"

    @property
    def trace(self) -> bytes | None:
        """The trace that the call belongs to."""
        found = self.metadata.get(TRACEPARENT)
        return found.encode("latin-1", "replace") if isinstance(found, str) else found

    def allow(self, action: AccessRight, *resources: Resource) -> None:
        """Check that the caller has a right to each resource. Raises NotAllowed, Unauthenticated.

        A stream checks again and again: the credential of its start may no longer be valid.
        """
        if not self.door.access.holds(self.principal):
            raise Unauthenticated("what was shown does not hold any more")
        for each in resources:
            self.door.access.check(self.principal, action, each)

    def sees(self, resource: Resource) -> bool:
        """Return whether the caller may know of a resource: listings leave out the rest."""
        return self.door.access.sees(self.principal, resource)

    def sees_topic(self, name: str) -> bool:
        """Return whether the caller may know of a topic."""
        return self.sees(topic(name))

    def admit(self, topic: str, size: int) -> None:
        """Charge the bytes of a request, unless the caller's limit is used up. Raises RateLimited."""
        self.door.access.admit(self.principal, topic, size)

    def charge(self, topic: str, records: Iterable[Record]) -> None:
        """Charge the bytes of records that the caller receives."""
        size = sum(len(each.data or b"") for each in records)
        self.door.access.charge(self.principal, topic, size, requests=0)

    async def asked(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the store, in a thread of the door, so that other calls go on."""
        return await self.door.in_thread(partial(work, *args, **kwargs))
