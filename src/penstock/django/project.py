"""The settings of a project for Penstock.

| setting               | meaning                                                | default               |
|-----------------------|--------------------------------------------------------|-----------------------|
| `PENSTOCK_OUTBOX`     | the outbox in your code, such as "shop.events:outbox"  | only `--url` is known |
| `PENSTOCK_DATABASE`   | the alias of the database that has Penstock's tables   | "default"             |
| `PENSTOCK_PREFIX`     | the prefix of the names of its tables                  | as for `Outbox`       |
| `PENSTOCK_SCHEMA`     | their schema (PostgreSQL)                              | the connection's own  |
| `PENSTOCK_ALLOW_DROP` | True: `migrate penstock zero` drops tables with data   | it refuses            |
"""

from contextlib import closing
from pkgutil import resolve_name

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from penstock.app import Outbox
from penstock.database.naming import DEFAULT_PREFIX, Names
from penstock.log.store import Store, open_store

from .connections import database_url


def alias() -> str:
    """Return the alias of the database that has Penstock's tables."""
    return str(getattr(settings, "PENSTOCK_DATABASE", "default"))


def names() -> Names:
    """Return the names of the tables. Raises InvalidName."""
    return Names(getattr(settings, "PENSTOCK_PREFIX", DEFAULT_PREFIX), getattr(settings, "PENSTOCK_SCHEMA", None))


def store() -> closing[Store]:
    """Open the store for the length of a block. Raises ImproperlyConfigured, InvalidName."""
    return closing(open_store(database_url(alias()), names()))


def allows_drop() -> bool:
    """Return whether tables with data may be dropped."""
    return getattr(settings, "PENSTOCK_ALLOW_DROP", False) is True


def outbox_name() -> str | None:
    """Return the import name of the outbox, if the settings have one."""
    found: str | None = getattr(settings, "PENSTOCK_OUTBOX", None)
    return found


def outbox() -> Outbox:
    """Return the project's outbox. Raises ImproperlyConfigured."""
    name = outbox_name()
    if not isinstance(name, str) or ":" not in name:
        raise ImproperlyConfigured(f'PENSTOCK_OUTBOX={name!r} must name your outbox, such as "shop.events:outbox"')
    try:
        found = resolve_name(name)
    except (ImportError, AttributeError) as exc:
        raise ImproperlyConfigured(f"PENSTOCK_OUTBOX={name!r} cannot be loaded: {exc}") from exc
    if not isinstance(found, Outbox):
        raise ImproperlyConfigured(f"PENSTOCK_OUTBOX={name!r} is {type(found).__name__}, not an Outbox")
    return found
