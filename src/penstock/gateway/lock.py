"""Authenticates HTTP requests: by certificate, `Authorization: Bearer` or `Basic`, or as anonymous.

Every request gets a principal in `scope["state"]["principal"]`, or 401. Machines without a secret send
probes, so `/healthz` and `/readyz` answer every client, without details. Each path checks the rights of its
principal: `access.check(principal, right, resource)`.
"""

import asyncio
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

from penstock.access.access import Access
from penstock.access.principal import Peer, Principal, anonymous, is_loopback
from penstock.access.resource import CLUSTER, AccessRight
from penstock.errors import ForeignPage, GatewayBusy, Unauthenticated, UnknownHost

from .problem import send_problem, status_of

DOOR = "http"
PLACE = "penstock.place"  # of the scope: the connection, which counts for its principal
CERTIFICATE = "penstock.certificate"  # of the scope: the client certificate, verified by TLS
UNKNOWN = "unknown"  # the method of a client of an open path without a valid credential
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
_OF_PAGES = frozenset({b"origin", b"sec-fetch-site", b"host", b"authorization"})
_MOST_CHARACTERS = 8 * 1024 + 16
_ASK = [(b"www-authenticate", b'Bearer realm="penstock"'), (b"www-authenticate", b'Basic realm="penstock"')]


class ConnectionPlace(Protocol):
    """The connection that a request came on, in `scope[PLACE]`: it takes a place of its principal."""

    @property
    def most(self) -> int:
        """The most connections of known clients at the port."""

    def know(self, principal: Principal) -> bool:
        """Set the principal of the connection; return False if it has too many connections."""


class Locked:
    """An ASGI application behind the lock."""

    def __init__(self, app: Any, access: Access, *, secrets_in_plaintext: bool = False) -> None:
        self._app, self._access, self._plaintext = app, access, secrets_in_plaintext

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address = str(scope["client"][0]) if scope.get("client") else "local"
        private = scope.get("scheme") == "https" or address == "local" or is_loopback(address)
        peer = Peer(address, DOOR, private or self._plaintext)
        if (page := foreign_page(scope)) is not None:
            self._access.refuse(DOOR, peer, "the request is of a page of another site")
            await send_problem(send, 403, ForeignPage(page))
            return
        try:
            principal = await self._principal(scope, peer)
        except Unauthenticated as exc:
            if scope["path"] not in OPEN_PATHS:
                await send_problem(send, 401, exc, headers=_ASK)
                return
            principal = anonymous(peer)._replace(method=UNKNOWN)
        place: ConnectionPlace | None = scope.get(PLACE)
        if place is not None and principal.method != UNKNOWN and not place.know(principal):
            busy = GatewayBusy(
                f"you hold as many of {place.most} connections as one client may (gateway.connections; a worker's "
                "port has 100); close some"
            )
            await send_problem(send, 503, busy, headers=[(b"connection", b"close")])
            return
        state = dict(scope.get("state") or {}, principal=principal, access=self._access)
        await self._app(dict(scope, state=state), receive, send)

    async def _principal(self, scope: Any, peer: Peer) -> Principal:
        said = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        certificate = scope.get(CERTIFICATE)
        if scope["path"] in OPEN_PATHS and not said and not certificate and not self._access.admits_anonymous:
            raise Unauthenticated("nothing was shown")  # a probe: not a failure worth reporting
        return await authenticated(self._access, peer, said, certificate)


class KnownHosts:
    """An ASGI application that answers requests to IP addresses, `localhost` and the given names: no others.

    A page of another site can have its own name resolve to this machine (DNS rebinding). The browser then
    treats the page as the same site, so it can read answers and publish. Its requests carry that name in
    `Host`. An IP address in `Host` cannot be rebound, and with TLS the certificate does not match the name.
    """

    def __init__(self, app: Any, names: Iterable[str]) -> None:
        self._app, self._names = app, frozenset(each.lower() for each in ("localhost", *names))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope.get("scheme") != "https":
            for name, value in scope["headers"]:
                if name == b"host" and not self._knows(value.decode("latin-1")):
                    refused = UnknownHost(value.decode("latin-1"))
                    await send_problem(send, status_of(refused), refused)
                    return  # no browser sends a request without Host, as in HTTP/1.0
        await self._app(scope, receive, send)

    def _knows(self, sent: str) -> bool:
        try:
            host = urlsplit(f"//{sent}").hostname or ""
            return host in self._names or bool(ip_address(host))
        except ValueError:
            return False


def foreign_page(scope: Any) -> str | None:
    """Return the site of the page that sends a request, if it is another and the request is not harmless.

    A browser adds a password that it knows, or a certificate, to any page's requests, and it reaches ports of
    its own machine: any page could publish as its visitor. A token is never added without intent.
    """
    if scope["method"] in _HARMLESS:
        return None
    said = {name: value for name, value in scope["headers"] if name in _OF_PAGES}
    origin, site = said.get(b"origin"), said.get(b"sec-fetch-site")
    if site is None and origin is None:
        return None  # not a browser
    if said.get(b"authorization", b"")[:7].lower() == b"bearer ":
        return None
    if site is not None:
        is_own = site in (b"same-origin", b"none")
    else:
        is_own = (origin or b"").lower().partition(b"://")[2] == said.get(b"host", b"").lower()
    return None if is_own else (origin or b"unknown").decode("latin-1")


async def authenticated(
    access: Access, peer: Peer, said: Sequence[bytes], certificate: Mapping[str, Any] | None
) -> Principal:
    """Return the principal of an `authorization` header, or of a certificate. Raises Unauthenticated."""
    if certificate:
        access.check_revoked(certificate, peer)
    if len(said) > 1 or any(len(each) > _MOST_CHARACTERS for each in said):
        raise access.refuse(peer.door, peer, "there are two credentials, or one that is too long")
    if said:
        scheme, _, rest = said[0].decode("latin-1").partition(" ")
        rest = rest.strip()
        if scheme.lower() == "bearer":
            return access.authenticate_bearer(rest, peer)
        if scheme.lower() == "basic":
            name, password = _basic(rest, access, peer)
            await asyncio.sleep(access.wait_for_basic(name, password, peer))
            work = asyncio.get_running_loop().run_in_executor
            return await work(None, access.authenticate_basic, name, password, peer)
        raise access.refuse(peer.door, peer, "only Bearer and Basic are taken")
    if certificate:
        return access.of_certificate(certificate, peer)
    return access.of_nobody(peer)


def may_look(request: Any) -> bool:
    """Return whether the caller may see the state of the store; without a lock every caller may."""
    access: Access | None = getattr(request.state, "access", None)
    return access is None or access.allowed(request.state.principal, AccessRight.DESCRIBE, CLUSTER)


def sees_reasons(request: Any) -> bool:
    """Return whether a probe gets reasons; without a secret it gets yes or no, which is not a refusal."""
    access: Access | None = getattr(request.state, "access", None)
    if access is None:
        return True
    who: Principal = request.state.principal
    return who.method != UNKNOWN and access.sees(who, CLUSTER)


def _basic(text: str, access: Access, peer: Peer) -> tuple[str, str]:
    try:
        name, password = b64decode(text, validate=True).decode().split(":", 1)
    except ValueError:  # of the decoding, or without a colon
        raise access.refuse("password", peer, "it is not Basic base64(name:password)") from None
    return name, password
