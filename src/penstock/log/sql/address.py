"""A store's address: the plain forms it has, its parts, and how it may be shown."""

import re
from collections.abc import Sequence
from typing import NamedTuple

FORMS = (
    "sqlite:///file.db",
    "sqlite:////absolute/file.db",
    "postgresql://user@host/database",
    "memory://",
)
Options = Sequence[tuple[str, str]]

_LOGIN = re.compile(r"(?<=://)([^/?#:]*):.*@")  # greedy: a password may hold an @
_OPTION = re.compile(r"([?&]\w*password=)[^&]*")


def without_password(url: str) -> str:
    """Return a URL without the password in its login or its options."""
    return _OPTION.sub(r"\1…", _LOGIN.sub(r"\1@", url))


class UrlParts(NamedTuple):
    """What a URL of SQLAlchemy's says, without escapes; `hosts` as a URL has them, with their ports."""

    shown: str  # without the password, for messages
    kind: str
    user: str | None
    password: str | None
    hosts: str
    database: str | None
    options: Options
