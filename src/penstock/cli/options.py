"""Options that several commands share."""

from collections.abc import Callable
from typing import Any

import click

from penstock.log.sql.dialects import FORMS
from penstock.log.sql.naming import DEFAULT_PREFIX

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

url_option: Decorator = click.option(
    "--url",
    envvar="PENSTOCK_URL",
    show_envvar=True,
    required=True,
    help=f"The store: {', '.join(FORMS)}.",
)
prefix_option: Decorator = click.option(
    "--prefix", default=DEFAULT_PREFIX, show_default=True, help="What all table names begin with."
)
schema_option: Decorator = click.option("--schema", help="The database schema of the tables (PostgreSQL).")
