"""Remedies for missing or old tables: a command, ready to run."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.database.address import without_password
from penstock.database.naming import DEFAULT_PREFIX, Names
from penstock.errors import NotMigrated, StoreUnsupported


def refuse_memory(url: str) -> None:
    """Refuse a store in memory: a command would create an empty one. Raises StoreUnsupported."""
    if url.startswith("memory://"):
        raise StoreUnsupported(
            "a command",
            f"a store shared with your program, but {url} exists only in the process that opened it; "
            "name one in a database or in files, as in sqlite:///shop.db",
        )


@contextmanager
def naming_the_command(url: str, names: Names) -> Iterator[None]:
    """Make an error that `migrate` fixes name the exact command for this store."""
    try:
        yield
    except NotMigrated as exc:
        exc.replace_remedy(f"run `{migrate_command(url, names)}`")
        raise


def migrate_command(url: str, names: Names) -> str:
    """Return the command that creates the tables; never repeats a URL with a password."""
    words = ["penstock", "migrate"]
    if os.environ.get("PENSTOCK_URL") != url:
        words += ["--url", shlex.quote(url) if without_password(url) == url else "…"]
    if names.prefix != DEFAULT_PREFIX:
        words += ["--prefix", names.prefix]
    if names.schema is not None:
        words += ["--schema", names.schema]
    return " ".join(words)
