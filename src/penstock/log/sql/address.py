"""A store's address as it may be shown, whole or as a short name."""

import re

_LOGIN = re.compile(r"(?<=://)([^/?#:]*):.*@")  # greedy: a password may hold an @
_OPTION = re.compile(r"([?&]\w*password=)[^&]*")


def without_password(url: str) -> str:
    """Return a URL without the password in its login or its options."""
    return _OPTION.sub(r"\1…", _LOGIN.sub(r"\1@", url))


def short_name(url: str) -> str:
    """Return where a URL leads, without its login and options: `host:5432/shop`, `shop.db`, `memory`."""
    scheme, found, rest = without_password(url).partition("://")
    if not found:
        return scheme
    if scheme == "sqlite":
        return rest.removeprefix("/")
    return rest.partition("?")[0].rpartition("@")[2] or scheme
