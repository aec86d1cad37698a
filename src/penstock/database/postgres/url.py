"""The address of a PostgreSQL database in the form of its client library, libpq.

Drivers have their own options. Connection options are translated to libpq's; options of the application's
driver do not apply to our connections and are dropped; all others are refused by name.
"""

import math
import re
from collections.abc import Iterator
from functools import cache
from urllib.parse import quote, unquote

from penstock.errors import InvalidUrl, MissingExtra

from ..address import FORMS, Options, UrlParts, without_password

try:
    from psycopg.pq import Conninfo
except ImportError as exc:
    raise MissingExtra("a postgresql:// store", "postgres") from exc

_OF_THE_DRIVER = {
    "async_fallback",
    "autocommit",
    "command_timeout",
    "max_cacheable_statement_size",
    "max_cached_statement_lifetime",
    "prepare_threshold",
    "prepared_statement_cache_size",
    "prepared_statement_name_func",
    "statement_cache_size",
}
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_REMEDIES = {
    "schema": "name it by --schema, or by Outbox(schema=…)",
    "server_settings": "write options=-cNAME%3DVALUE",
    "ssl_context": "write sslmode, sslrootcert, sslcert and sslkey",
    "sslcontext": "write sslmode, sslrootcert, sslcert and sslkey",
}
_HOST_AND_PORT = re.compile(r"([A-Za-z0-9.-]*):(\d*)")


def postgres_url(parts: UrlParts) -> str:
    """Return the libpq URL for a SQLAlchemy URL. Raises InvalidUrl."""
    login = ""
    if parts.user is not None:
        password = "" if parts.password is None else f":{quote(parts.password, safe='')}"
        login = f"{quote(parts.user, safe='')}{password}@"
    options = list(_translated(_with_split_hosts(parts), parts.shown))
    return f"postgresql://{login}{parts.hosts}/{quote(parts.database or '', safe='')}{_query(options)}"


def with_known_options(url: str) -> str:
    """Return a libpq URL with drivers' options translated to libpq's. Raises InvalidUrl."""
    start, found, query = url.partition("?")
    pairs = [each.partition("=")[::2] for each in query.split("&")] if found else []
    options = [(unquote(name), unquote(value)) for name, value in pairs if name]
    if all(name in _libpq_names() for name, _ in options):
        return url
    return start + _query(list(_translated(options, without_password(url))))


def _translated(options: Options, shown: str) -> Iterator[tuple[str, str]]:
    for name, value in options:
        if name == "ssl":
            yield "sslmode", _ssl_mode(shown, value)
        elif name == "direct_tls":
            if value.lower() not in _TRUTH:
                raise InvalidUrl(shown, FORMS, why=f"{name}={value!r} must be true or false")
            if _TRUTH[value.lower()]:
                yield "sslnegotiation", "direct"
        elif name == "timeout":
            yield "connect_timeout", _whole_seconds(shown, value)
        elif name in _libpq_names():
            yield name, value
        elif name not in _OF_THE_DRIVER:
            remedy = _REMEDIES.get(name, "leave it out")
            raise InvalidUrl(shown, FORMS, why=f"PostgreSQL's client library has no option {name!r}; {remedy}")


def _with_split_hosts(parts: UrlParts) -> Options:
    """Return options with several hosts in libpq's form: SQLAlchemy also has `host=a:1&host=b:2`."""
    named = [value for name, value in parts.options if name == "host"]
    split = [_HOST_AND_PORT.fullmatch(each) for each in named]
    if not named or not (len(named) > 1 or split[0]):
        return parts.options
    rest = [(name, value) for name, value in parts.options if name != "host"]
    if any(name == "port" for name, _ in rest):
        raise InvalidUrl(parts.shown, FORMS, why="give the ports in `host=a:1&host=b:2` or in `port=1,2`, not in both")
    hosts = [found[1] if found else each for found, each in zip(split, named, strict=True)]
    ports = [found[2] if found else "" for found in split]
    return [("host", ",".join(hosts)), *([("port", ",".join(ports))] if any(ports) else []), *rest]


def _ssl_mode(shown: str, value: str) -> str:
    if value in _SSL_MODES:
        return value
    if value.lower() in _TRUTH:
        return "require" if _TRUTH[value.lower()] else "disable"
    modes = ", ".join(_SSL_MODES)
    raise InvalidUrl(shown, FORMS, why=f"ssl={value!r} must be one of {modes}")


def _whole_seconds(shown: str, value: str) -> str:
    try:
        seconds = float(value)
        if 0 < seconds <= 1e6:
            return str(math.ceil(seconds))
    except ValueError:
        pass
    raise InvalidUrl(shown, FORMS, why=f"timeout={value!r} must be a number of seconds, as in timeout=10")


def _query(options: Options) -> str:
    pairs = [f"{quote(name, safe='')}={quote(value, safe='/,:')}" for name, value in options]
    return f"?{'&'.join(pairs)}" if pairs else ""


@cache
def _libpq_names() -> frozenset[str]:
    return frozenset(each.keyword.decode() for each in Conninfo.get_defaults())
