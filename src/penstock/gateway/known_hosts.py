"""Refuses requests to unknown host names: DNS rebinding.

A page of another site can have its own name resolve to this machine. The browser then treats the page as the
same site, so it can read answers and publish. Its requests carry that name in `Host`. An IP address in `Host`
cannot be rebound, and with TLS the certificate does not match the name.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import UnknownHost

from .problem import send_problem
from .statuses import status_of


class KnownHosts:
    """An ASGI application that answers requests to IP addresses, `localhost` and the given names."""

    def __init__(self, app: Any, names: Iterable[str]) -> None:
        self._app, self._names = app, frozenset(each.lower() for each in ("localhost", *names))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request to a known name."""
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
