"""Security of pages and visitors: response headers, the CSRF mark of a session, and bounded forms.

| against               | defence                                                                           |
|-----------------------|-----------------------------------------------------------------------------------|
| scripts in data       | templates escape everything; the policy runs only files of this site              |
| another site's forms  | a mark of the session in each form, `SameSite=Strict`, and the form's origin      |
| frames, caches, links | `frame-ancestors 'none'`, `no-store`, `no-referrer`                               |
| DNS rebinding         | the listener: in plaintext only IP addresses and known names (`KnownHosts`)       |
"""

import hmac
import os
import secrets
from collections import OrderedDict
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import ImmutableMultiDict, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response

from penstock.clock import Clock
from penstock.errors import BodyTooLarge, InvalidInput, UnsupportedBody
from penstock.gateway.rest.requests import body_of
from penstock.gateway.settings import GatewaySettings

MOST_BYTES = 256 * 1024
_MOST_FIELDS = 1000
_KIND = "application/x-www-form-urlencoded"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
MARK = "mark"  # the field of a form that holds the session's mark
_MOST_SESSIONS = 1000
_SESSION_SECONDS = 12 * 3600.0


class Protected:
    """An ASGI application that adds the headers to every answer, except those that the answer has already."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def protect(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope.get("scheme") == "https":
                    headers["strict-transport-security"] = "max-age=31536000"
            await send(message)

        await self._app(scope, receive, protect)


def came_from_here(request: Request) -> bool:
    """Return whether a form came from a page of this site, as far as the browser tells the form's origin."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = (None, f"{request.url.scheme}://{request.headers.get('host', '')}")
    if site is None:
        return origin in own
    return site == "same-origin" and origin in (*own, "null")  # no-referrer hides it from us, too


class Sessions:
    """Browser sessions: an id in a cookie, and a mark. Only those unlocked or with a message are kept, bounded."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._key = clock, os.urandom(32)
        self._open_until: OrderedDict[str, float] = OrderedDict()
        self._messages: OrderedDict[str, str] = OrderedDict()

    def cookie(self, request: Request) -> str:
        """Return the cookie's name; it has the port, because browsers share cookies among a host's ports."""
        port = request.scope["server"][1] if request.scope.get("server") else 0
        return f"penstock_console_{port}"

    def of(self, request: Request) -> str:
        """Return the id of a request's session, or of a new one."""
        found = request.cookies.get(self.cookie(request), "")
        return found if len(found) == 43 and found.isascii() else secrets.token_urlsafe(32)

    def keep(self, response: Response, request: Request, session: str) -> None:
        """Set the session's cookie, unless the browser already has it."""
        name = self.cookie(request)
        if request.cookies.get(name) != session:
            is_secret = request.url.scheme == "https"
            response.set_cookie(name, session, path="/", secure=is_secret, httponly=True, samesite="strict")

    def mark(self, session: str) -> str:
        """Return the mark that forms of a session carry."""
        return hmac.digest(self._key, session.encode(), "sha256").hex()

    def is_genuine(self, request: Request, session: str, mark: str) -> bool:
        """Return whether a form was made for a session and came from a page of this site."""
        right = request.cookies.get(self.cookie(request)) == session
        shown = mark.encode("utf-8", "surrogatepass")
        return right and came_from_here(request) and hmac.compare_digest(self.mark(session).encode(), shown)

    def unlock(self) -> str:
        """Return a new, unlocked session; its id is fresh, so no one can have planted it."""
        session = secrets.token_urlsafe(32)
        self._open_until[session] = self._clock.monotonic() + _SESSION_SECONDS
        _trim(self._open_until)
        return session

    def lock(self, session: str) -> None:
        """Lock a session again."""
        self._open_until.pop(session, None)

    def is_unlocked(self, session: str) -> bool:
        """Return whether a session was unlocked by the token and has not expired."""
        return self._clock.monotonic() < self._open_until.get(session, 0.0)

    def tell(self, session: str, text: str) -> None:
        """Keep a message for the next page of a session."""
        self._messages[session] = text
        _trim(self._messages)

    def take_message(self, session: str) -> str | None:
        """Return that message, once."""
        return self._messages.pop(session, None)


def _trim(kept: "OrderedDict[str, float] | OrderedDict[str, str]") -> None:
    while len(kept) > _MOST_SESSIONS:
        kept.popitem(last=False)


async def read_form(request: Request) -> ImmutableMultiDict[str, str]:
    """Return the fields of a form. Raises BodyTooLarge, BodyLate, UnsupportedBody, InvalidInput."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _KIND:
        raise UnsupportedBody("content type", kind, _KIND)
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > MOST_BYTES:
        raise BodyTooLarge(MOST_BYTES)
    body = await body_of(request, GatewaySettings(body_bytes=MOST_BYTES))
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as exc:
        raise InvalidInput("the form cannot be read") from exc
    return ImmutableMultiDict(fields)
