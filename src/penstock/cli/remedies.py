"""What a person at the command line can do about tables that are missing or old: a command, ready to run."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import NotMigrated, StoreUnsupported
from penstock.log.sql.address import without_password
from penstock.log.sql.naming import DEFAULT_PREFIX, Names


def refuse_memory(url: str) -> None:
    """Refuse a store in memory: a command would make an empty one. Raises StoreUnsupported."""
    if url.startswith("memory://"):
        raise StoreUnsupported(
            "a command",
            f"a store that it shares with your program, and {url} lives only in the process that opened it; "
            "name one in a database or in files, as in sqlite:///shop.db",
        )


@contextmanager
def naming_the_command(url: str, names: Names) -> Iterator[None]:
    """Let an error that `migrate` would fix name the exact command for this store."""
    try:
        yield
    except NotMigrated as exc:
        exc.replace_remedy(f"run `{migrate_command(url, names)}`")
        raise


def migrate_command(url: str, names: Names) -> str:
    """Return the command that makes the tables; an address with a password is not repeated."""
    words = ["penstock", "migrate"]
    if os.environ.get("PENSTOCK_URL") != url:
        words += ["--url", shlex.quote(url) if without_password(url) == url else "…"]
    if names.prefix != DEFAULT_PREFIX:
        words += ["--prefix", names.prefix]
    if names.schema is not None:
        words += ["--schema", names.schema]
    return " ".join(words)
