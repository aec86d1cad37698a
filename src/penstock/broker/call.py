"""One request as its handler gets it, and helpers that handlers share."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from penstock.access.access import Access
from penstock.access.principal import Principal
from penstock.access.resource import AccessRight, Resource, ResourceKind
from penstock.errors import NotAllowed
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.layout import Message

from .slices import Slices

T = TypeVar("T")


class Refused(Exception):
    """A request, or a part of it, is answered with one of Kafka's numbers."""

    def __init__(self, number: ErrorNumber, why: str = "") -> None:
        super().__init__(why or number.name)
        self.number = number


class ClientCall(NamedTuple):
    """A request with its version, and the client that sent it."""

    principal: Principal
    client_id: str
    version: int
    body: Message
    access: Access
    slices: Slices

    def may(self, action: AccessRight, resource: Resource) -> bool:
        """Return whether the caller has a right to a resource."""
        return self.access.allowed(self.principal, action, resource)

    def may_some(self, action: AccessRight, kind: ResourceKind) -> bool:
        """Return whether the caller has a right to at least one resource of a kind."""
        return self.access.allowed_some(self.principal, action, kind)

    def sees(self, resource: Resource) -> bool:
        """Return whether the caller may see a resource in a list; leaving it out is no refusal."""
        return self.access.sees(self.principal, resource)

    def check(self, action: AccessRight, resource: Resource) -> None:
        """Raise NotAllowed unless the caller has a right to a resource."""
        if not self.may(action, resource):
            raise NotAllowed(self.principal.name, action, str(resource))

    def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield the elements of a list, however long it is, without blocking the loop: see `Slices.each`."""
        return self.slices.each(items)


Reply = Message | bytes  # as fields, or encoded already
RequestHandler = Callable[[ClientCall], Reply | Awaitable[Reply]]
