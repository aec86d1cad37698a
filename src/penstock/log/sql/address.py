"""A store's address as it may be shown."""

import re

_LOGIN = re.compile(r"(?<=://)([^/?#:]*):.*@")  # greedy: a password may hold an @
_BARE_LOGIN = re.compile(r"^([^/?#:=\s]*):.*@")  # of an address that lacks its scheme
_OPTION = re.compile(r"((?:^|[?&\s])\w*password\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]*)")


def without_password(url: str) -> str:
    """Return an address without the password in its login or options, also one of a form that is refused."""
    shown = _LOGIN.sub(r"\1@", url) if "://" in url else _BARE_LOGIN.sub(r"\1@", url)
    return _OPTION.sub(r"\1…", shown)
