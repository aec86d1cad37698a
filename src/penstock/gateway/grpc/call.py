"""One call of a method: who asks, and whether that is allowed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from penstock.access.principal import Principal
from penstock.access.resource import AccessRight, Resource, topic
from penstock.errors import Unauthenticated
from penstock.log.store import Store
from penstock.model.record import Record
from penstock.model.trace import TRACEPARENT

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
        """The store that is served."""
        return self.door.store

    @property
    def actor(self) -> str:
        """Who the audit says has done it."""
        return f"grpc:{self.principal.name}"

    @property
    def trace(self) -> bytes | None:
        """The trace that the call is part of."""
        found = self.metadata.get(TRACEPARENT)
        return found.encode("latin-1", "replace") if isinstance(found, str) else found

    def allow(self, action: AccessRight, *resources: Resource) -> None:
        """Let the call go on if who asks may do that to each of them. Raises NotAllowed, Unauthenticated.

        A stream asks again and again: what was shown at its beginning may not hold any more.
        """
        if not self.door.access.holds(self.principal):
            raise Unauthenticated("what was shown does not hold any more")
        for each in resources:
            self.door.access.check(self.principal, action, each)

    def sees(self, resource: Resource) -> bool:
        """Return whether who asks may know of it: listings leave out the rest."""
        return self.door.access.sees(self.principal, resource)

    def sees_topic(self, name: str) -> bool:
        """Return whether who asks may know of a topic."""
        return self.sees(topic(name))

    def admit(self, topic: str, size: int) -> None:
        """Count the bytes of a request, unless the limit of who asks is used up. Raises RateLimited."""
        self.door.access.admit(self.principal, topic, size)

    def charge(self, topic: str, records: Iterable[Record]) -> None:
        """Count the bytes of records that who asks is given."""
        size = sum(len(each.data or b"") for each in records)
        self.door.access.charge(self.principal, topic, size, requests=0)

    async def asked(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the store, in a thread of the door, without holding up the others."""
        return await self.door.in_thread(partial(work, *args, **kwargs))
