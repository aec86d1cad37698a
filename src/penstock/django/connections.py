"""Django's databases for Penstock: their URLs, and connections in long-running processes."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections

F = TypeVar("F", bound=Callable[..., Any])

# Options of Django's backend or its driver that have no place in a URL.
_NOT_IN_A_URL = {
    "assume_role",
    "autocommit",
    "context",
    "cursor_factory",
    "isolation_level",
    "pool",
    "prepare_threshold",
    "row_factory",
    "server_side_binding",
}


def database_url(alias: str = "default") -> str:
    """Return the URL of one of Django's databases, for `Outbox(database_url())`. Raises ImproperlyConfigured."""
    connection = connections[alias]
    if connection.vendor == "sqlite":
        if connection.is_in_memory_db():
            raise ImproperlyConfigured(
                f"database {alias!r} is in memory, where Penstock's own connections cannot see it; give it a "
                'file: NAME, or for tests "TEST": {"NAME": "test.db"}'
            )
        return f"sqlite:///{connection.settings_dict['NAME']}"
    if connection.vendor == "postgresql":
        return _postgresql(connection.settings_dict)
    raise ImproperlyConfigured(f"database {alias!r} is {connection.vendor}; Penstock supports sqlite and postgresql")


def fresh_connections(function: F) -> F:
    """Close Django's broken and expired connections before and after each call of a handler.

    Django does so for each request. Without it a worker would keep a connection that its database has closed.
    """
    if inspect.iscoroutinefunction(function):
        close = sync_to_async(close_old_connections)

        @wraps(function)
        async def awaited(*args: Any, **options: Any) -> Any:
            await close()
            try:
                return await function(*args, **options)
            finally:
                await close()

        return awaited  # type: ignore[return-value]  # wraps keeps the signature

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        close_old_connections()
        try:
            return function(*args, **options)
        finally:
            close_old_connections()

    return called  # type: ignore[return-value]  # wraps keeps the signature


def _postgresql(given: Mapping[str, Any]) -> str:
    options = {
        name: value
        for name, value in given["OPTIONS"].items()
        if name not in _NOT_IN_A_URL and isinstance(value, str | int)
    }
    host, port = str(given["HOST"] or ""), str(given["PORT"] or "")
    if host.startswith("/") or "," in host:  # the folder of a socket, or several hosts
        options |= {"host": host, **({"port": port} if port else {})}
        host = port = ""
    user, password = quote(str(given["USER"] or ""), safe=""), quote(str(given["PASSWORD"] or ""), safe="")
    login = f"{user}{f':{password}' if password else ''}@" if user or password else ""
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    name = quote(str(given["NAME"] or ""), safe="")
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    return f"postgresql://{login}{place}/{name}{query}"
