"""One request as its handler gets it, and what handlers share."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

from penstock.access.access import Access
from penstock.access.principal import Principal
from penstock.access.resource import AccessRight, Resource, ResourceKind
from penstock.errors import NotAllowed
from penstock.wire.kafka.layout import Message

from .slices import Slices

T = TypeVar("T")


class ClientCall(NamedTuple):
    """Who asks what, in which version."""

    principal: Principal
    client_id: str
    version: int
    body: Message
    access: Access
    slices: Slices

    def may(self, action: AccessRight, resource: Resource) -> bool:
        """Return whether who asks may do something."""
        return self.access.allowed(self.principal, action, resource)

    def may_some(self, action: AccessRight, kind: ResourceKind) -> bool:
        """Return whether who asks may do something to anything of a kind, whichever that is."""
        return self.access.allowed_some(self.principal, action, kind)

    def sees(self, resource: Resource) -> bool:
        """Return whether something is shown to who asks in a list; what is not is no refusal."""
        return self.access.sees(self.principal, resource)

    def check(self, action: AccessRight, resource: Resource) -> None:
        """Raise NotAllowed unless who asks may do something."""
        if not self.may(action, resource):
            raise NotAllowed(self.principal.name, action, str(resource))

    def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield the elements of a list, however long it is, without holding the loop: see `Slices.each`."""
        return self.slices.each(items)


Reply = Message | bytes  # as fields, or encoded already
RequestHandler = Callable[[ClientCall], Reply | Awaitable[Reply]]
