"""One request as its handler gets it, and what handlers share."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.errors import NotAllowed
from penstock.wire.kafka.layout import Message

from .access import AccessRight, AccessRules, Principal, Resource


class ClientCall(NamedTuple):
    """Who asks what, in which version."""

    principal: Principal
    client_id: str
    version: int
    body: Message
    rules: AccessRules

    def may(self, action: AccessRight, resource: Resource) -> bool:
        """Return whether who asks may do something."""
        return self.rules.allowed(self.principal, action, resource)

    def check(self, action: AccessRight, resource: Resource) -> None:
        """Raise NotAllowed unless who asks may do something."""
        if not self.may(action, resource):
            raise NotAllowed(self.principal.name, action, str(resource))


Reply = Message | bytes  # as fields, or encoded already
RequestHandler = Callable[[ClientCall], Reply | Awaitable[Reply]]
