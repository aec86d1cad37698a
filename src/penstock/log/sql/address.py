"""A store's address: the plain forms it has, its parts, and how it may be shown, whole or as a short name."""

import re
from collections.abc import Sequence
from typing import NamedTuple

FORMS = (
    "sqlite:///file.db",
    "sqlite:////absolute/file.db",
    "postgresql://user@host/database",
    "memory://",
    "./directory",
    "file:///directory",
)
Options = Sequence[tuple[str, str]]

_LOGIN = re.compile(r"(?<=://)([^/?#:]*):.*@", re.DOTALL)  # greedy: a password may hold an @
_BARE_LOGIN = re.compile(r"^([^/?#:=\s]*):.*@", re.DOTALL)  # of an address that lacks its scheme
_OPTION = re.compile(
    r"((?:^|[?&\s])\w*(?:password|passwd|pwd)\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]*)", re.IGNORECASE
)


def without_password(url: str) -> str:
    """Return an address without the password in its login or options, also one of a form that is refused."""
    shown = _LOGIN.sub(r"\1@", url) if "://" in url else _BARE_LOGIN.sub(r"\1@", url)
    return _OPTION.sub(r"\1…", shown)


def short_name(url: str) -> str:
    """Return where a URL leads, without its login and options: `host:5432/shop`, `shop.db`, `memory`."""
    scheme, found, rest = without_password(url).partition("?")[0].partition("://")
    if not found:
        return scheme
    if scheme == "sqlite":
        return rest.removeprefix("/")
    return rest.rpartition("@")[2] or scheme


class UrlParts(NamedTuple):
    """What a URL of SQLAlchemy's says, without escapes; `hosts` as a URL has them, with their ports."""

    shown: str  # without the password, for messages
    kind: str
    user: str | None
    password: str | None
    hosts: str
    database: str | None
    options: Options
