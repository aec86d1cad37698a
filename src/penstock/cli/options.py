"""Options that several commands share, and the store that they select."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import wraps
from typing import Any, NamedTuple

import click

from penstock.database.address import FORMS, without_password
from penstock.database.migrations import check
from penstock.database.naming import DEFAULT_PREFIX, Names
from penstock.errors import NotMigrated, StoreUnsupported
from penstock.log.store import Store, open_store
from penstock.operate.operation import PAGE_ROWS

from .units import past_moment

TIMEOUT_SECONDS = 20.0  # a person does not wait longer for a lock, a worker does
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

url_option: Decorator = click.option(
    "--url", envvar="PENSTOCK_URL", show_envvar=True, required=True, help=f"The store: {', '.join(FORMS)}."
)
prefix_option: Decorator = click.option(
    "--prefix", default=DEFAULT_PREFIX, show_default=True, help="The prefix of all table names."
)
schema_option: Decorator = click.option("--schema", help="The database schema of the tables (PostgreSQL).")
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
yes_option: Decorator = click.option("--yes", is_flag=True, help="Do not ask.")
_limit_option: Decorator = click.option(
    "--limit", type=int, default=PAGE_ROWS, show_default=True, help="How many rows to list at most."
)
_after_option: Decorator = click.option("--after", help="Continue where the previous page ended.")


def past_option(name: str, help: str, *, required: bool = False) -> Decorator:
    """Return an option for a moment in the past."""
    return click.option(name, type=past_moment, metavar="MOMENT|2h", required=required, help=help)


def with_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options, in the order of the help."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


location_options = with_options(url_option, prefix_option, schema_option)
page_options = with_options(_limit_option, _after_option)


@contextmanager
def opened(url: str, prefix: str, schema: str | None) -> Iterator[Store]:
    """Open the store of those options; never creates a file.

    Raises StoreUnsupported, StoreMissing, SchemaMissing, SchemaBehind, SchemaTooNew.
    """
    with attached(url, Names(prefix, schema)) as store:
        store.database.timeout_seconds = TIMEOUT_SECONDS
        check(store.database)
        yield store


@contextmanager
def attached(url: str, names: Names, **options: Any) -> Iterator[Store]:
    """Give a store without a look at its tables; errors that `migrate` fixes name the exact command."""
    refuse_memory(url)
    with closing(open_store(url, names, **options)) as store, naming_the_command(url, names):
        yield store


class ChosenStore(NamedTuple):
    """The store that a command's options select."""

    url: str
    prefix: str
    schema: str | None

    @property
    def names(self) -> Names:
        """The names of its tables."""
        return Names(self.prefix, self.schema)

    def opened(self) -> AbstractContextManager[Store]:
        """Open it, as `opened` does."""
        return opened(*self)


def store_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select the store; the command gets them as `chosen`."""

    @wraps(function)
    def with_store(*args: Any, url: str, prefix: str, schema: str | None, **given: Any) -> Any:
        return function(*args, chosen=ChosenStore(url, prefix, schema), **given)

    return location_options(with_store)


def store_command(
    name: str, group: Any = click, *, paged: bool = False
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator for a command that works on a store, with `--json`, and with those of a page if `paged`.

    The command gets the opened `store`, and `as_json`. In its help the arguments come first, then the options
    of the store, then its own.
    """

    def decorated(function: Callable[..., Any]) -> click.Command:
        @wraps(function)
        def with_store(url: str, prefix: str, schema: str | None, **given: Any) -> None:
            with opened(url, prefix, schema) as store:
                function(store=store, **given)

        more = page_options(json_option(with_store)) if paged else json_option(with_store)
        command: click.Command = group.command(name)(location_options(more))
        command.params.sort(key=_rank)
        return command

    return decorated


def _rank(parameter: click.Parameter) -> int:
    if isinstance(parameter, click.Argument):
        return 0
    return {"url": 1, "prefix": 1, "schema": 1, "limit": 3, "after": 3, "as_json": 4}.get(parameter.name or "", 2)


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
