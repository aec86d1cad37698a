"""Options that several commands share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from penstock.database.address import FORMS
from penstock.database.migrations import check
from penstock.database.naming import DEFAULT_PREFIX, Names
from penstock.log.store import Store, open_store
from penstock.operate.paging import PAGE_ROWS

from .remedies import naming_the_command, refuse_memory
from .units import past_moment

TIMEOUT_SECONDS = 20.0  # a person does not wait longer for a lock, a worker does
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

url_option: Decorator = click.option(
    "--url",
    envvar="PENSTOCK_URL",
    show_envvar=True,
    required=True,
    help=f"The store: {', '.join(FORMS)}.",
)
prefix_option: Decorator = click.option(
    "--prefix", default=DEFAULT_PREFIX, show_default=True, help="The prefix of all table names."
)
schema_option: Decorator = click.option("--schema", help="The database schema of the tables (PostgreSQL).")
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
limit_option: Decorator = click.option(
    "--limit", type=int, default=PAGE_ROWS, show_default=True, help="How many rows to list at most."
)
after_option: Decorator = click.option("--after", help="Continue where the previous page ended.")


def since_option(help: str) -> Decorator:
    """Return the option `--since`."""
    return _past_option("--since", help)


def before_option(help: str, *, required: bool = False) -> Decorator:
    """Return the option `--before`."""
    return _past_option("--before", help, required=required)


def _past_option(name: str, help: str, *, required: bool = False) -> Decorator:
    return click.option(name, type=past_moment, metavar="MOMENT|2h", required=required, help=help)


def store_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select the store."""
    return url_option(prefix_option(schema_option(function)))


@contextmanager
def opened(url: str, prefix: str, schema: str | None) -> Iterator[Store]:
    """Open the store of those options; never creates a file.

    Raises StoreUnsupported, StoreMissing, SchemaMissing, SchemaBehind, SchemaTooNew.
    """
    names = Names(prefix, schema)
    refuse_memory(url)
    store = open_store(url, names)
    store.database.timeout_seconds = TIMEOUT_SECONDS
    try:
        with naming_the_command(url, names):
            check(store.database)
            yield store
    finally:
        store.close()
