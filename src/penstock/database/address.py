"""A store's address: its plain forms, its parts, and its display without password."""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

FORMS = (
    "sqlite:///file.db",
    "sqlite:////absolute/file.db",
    "postgresql://user@host/database",
    "memory://",
    "./directory",
    "file:///directory",
)
_SIGNS = ("./", "../", "/", "~/")  # of a path
Options = Sequence[tuple[str, str]]

_LOGIN = re.compile(r"(?<=://)([^/?#:]*):.*@", re.DOTALL)  # greedy: a password may hold an @
_BARE_LOGIN = re.compile(r"^([^/?#:=\s]*):.*@", re.DOTALL)  # in an address without a scheme
_OPTION = re.compile(r"((?:^|[?&\s])\w*(?:password|passwd|pwd)\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]*)", re.IGNORECASE)


def without_password(url: str) -> str:
    """Return an address without the password in its login or options, even if its form is invalid."""
    shown = _LOGIN.sub(r"\1@", url) if "://" in url else _BARE_LOGIN.sub(r"\1@", url)
    return _OPTION.sub(r"\1…", shown)


def short_name(url: str) -> str:
    """Return the place of a URL, without login and options: `host:5432/shop`, `shop.db`, `memory`."""
    scheme, found, rest = without_password(url).partition("?")[0].partition("://")
    if not found:
        return scheme
    if scheme == "sqlite":
        return rest.removeprefix("/")
    return rest.rpartition("@")[2] or scheme


def directory_in(url: str) -> str | None:
    """Return the absolute directory of a log in files, a path or `file:///directory`; None for another address."""
    scheme, found, rest = url.partition("://")
    if found:
        if scheme != "file" or not rest.startswith("/") or "\x00" in rest:
            return None
        return os.path.abspath(unquote(rest))
    if "\x00" in url or os.path.isfile(url):
        return None
    is_meant = url in (".", "..") or url.startswith(_SIGNS) or url.endswith("/") or os.path.isdir(url)
    has_suffix = os.path.splitext(url.rstrip("/"))[1] and not url.endswith("/") and not os.path.isdir(url)
    return os.path.abspath(os.path.expanduser(url)) if url and is_meant and not has_suffix else None


class UrlParts(NamedTuple):
    """The parts of a SQLAlchemy URL, unescaped; `hosts` as in the URL, with ports."""

    shown: str  # without the password, for messages
    kind: str
    user: str | None
    password: str | None
    hosts: str
    database: str | None
    options: Options
