"""The door of gRPC; and one call, with its principal: by `authorization`, by certificate, or anonymous."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ParamSpec, TypeVar, Unpack
from urllib.parse import unquote

from penstock.access.access import Access
from penstock.access.certificates import certificate_of
from penstock.access.places import ByteBudget, SharedPlaces
from penstock.access.principal import Peer, Principal, is_loopback
from penstock.log.store import Store
from penstock.model.record import TRACEPARENT

from ..door import Door, DoorCall, DoorOptions
from ..lock import authenticated

P = ParamSpec("P")
T = TypeVar("T")
DOOR = "grpc"
_certificate = lru_cache(256)(certificate_of)


class GrpcDoor(Door):
    """Answers every call over gRPC."""

    def __init__(self, store: Store, *, secrets_in_plaintext: bool = False, **options: Unpack[DoorOptions]) -> None:
        super().__init__("grpc", store, **options)
        self.secrets_in_plaintext = secrets_in_plaintext
        largest, half = self.settings.body_bytes, self.settings.bodies_bytes // 2
        # Arriving, and in memory. One principal never takes all of the arriving room: there is room for two.
        self.reading = ByteBudget(max(half, 2 * largest), least=largest)
        self.bodies = ByteBudget(half, least=largest)
        self.calls = SharedPlaces(self.settings.connections)
        # Watches of the health by anonymous clients.
        self.watches = SharedPlaces(max(8, self.settings.connections // 4))


@dataclass(frozen=True, slots=True)
class GrpcCall(DoorCall):
    """A call, as a method sees it. In the event loop of the door."""

    door: GrpcDoor
    principal: Principal
    metadata: dict[str, str | bytes]
    face: str = DOOR

    @property
    def trace(self) -> bytes | None:
        """The trace that the call belongs to."""
        found = self.metadata.get(TRACEPARENT)
        return found.encode("latin-1", "replace") if isinstance(found, str) else found

    def admit(self, topic: str, size: int) -> None:
        """Charge the bytes of a request, unless the caller's limit is used up. Raises RateLimited."""
        self.door.access.admit(self.principal, topic, size)

    async def asked(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the store, in a thread of the door, so that other calls go on."""
        return await self.door.in_thread(partial(work, *args, **kwargs))


async def principal_of(access: Access, context: Any, *, secrets_in_plaintext: bool) -> Principal:
    """Return the principal of a call. Raises Unauthenticated."""
    sent = [_bytes(value) for name, value in context.invocation_metadata() or () if name == "authorization"]
    known = context.auth_context()
    certificate = known.get("x509_pem_cert")
    peer = peer_of(context.peer(), known, secrets_in_plaintext=secrets_in_plaintext)
    return await authenticated(access, peer, sent, _certificate(certificate[0]) if certificate else None)


def peer_of(text: str, known: Any, *, secrets_in_plaintext: bool) -> Peer:
    """Return the other end of a connection: gRPC writes `ipv4:127.0.0.1:57112` or `ipv6:%5B::1%5D:57112`."""
    kind, _, rest = unquote(text).partition(":")
    address = rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else "local"
    is_encrypted = b"ssl" in known.get("transport_security_type", ())
    return Peer(address, DOOR, is_encrypted or address == "local" or is_loopback(address) or secrets_in_plaintext)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1", "replace")
