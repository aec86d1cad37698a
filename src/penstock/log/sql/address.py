"""A store's address as it may be shown."""

import re

_LOGIN = re.compile(r"(?<=://)([^/?#:]*):.*@")  # greedy: a password may hold an @
_OPTION = re.compile(r"([?&]\w*password=)[^&]*")


def without_password(url: str) -> str:
    """Return a URL without the password in its login or its options."""
    return _OPTION.sub(r"\1…", _LOGIN.sub(r"\1@", url))
