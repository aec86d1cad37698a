"""The app's entry in Django's registry, and the checks of `manage.py check`.

They tell of an outbox that does not load or has another database, and of SQLite's default.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.creation import TEST_DATABASE_PREFIX

from . import project
from .connections import database_url


class PenstockConfig(AppConfig):  # type: ignore[misc]  # Django brings no types
    """Penstock in a Django project."""

    name = "penstock.django"
    label = "penstock"
    verbose_name = "Penstock"

    def ready(self) -> None:
        """Register the checks."""
        register(check_transaction_mode)
        register(check_outbox)


def check_transaction_mode(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Warn unless transactions on SQLite begin as writers."""
    connection = connections[project.alias()]
    mode = str(connection.settings_dict["OPTIONS"].get("transaction_mode", "")).upper()
    if connection.vendor != "sqlite" or mode in ("IMMEDIATE", "EXCLUSIVE"):
        return []
    return [
        Warning(
            f"A transaction on database {project.alias()!r} that reads before it writes can fail with "
            '"database is locked" while a worker writes.',
            hint='Set "OPTIONS": {"transaction_mode": "IMMEDIATE"} (Django 5.1 and later).',
            id="penstock.W001",
        )
    ]


def check_outbox(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """Check that the project's outbox loads and is in the database that Django publishes in."""
    if project.outbox_name() is None:
        return []
    try:
        outbox = project.outbox()
        expected = database_url(project.alias())
    except ImproperlyConfigured as exc:
        return [] if _is_test_database() else [Error(str(exc), id="penstock.E001")]
    if _is_test_database() or _place(outbox.url) == _place(expected):
        return []
    return [
        Warning(
            f"The outbox {project.outbox_name()} is in another database than {project.alias()!r}: its "
            "workers would not see the events published there.",
            hint="Create it with Outbox(database_url()), from penstock.django.",
            id="penstock.W002",
        )
    ]


def _is_test_database() -> bool:
    connection = connections[project.alias()]
    name = str(connection.settings_dict["NAME"])
    given = connection.settings_dict.get("TEST", {}).get("NAME")
    if given and given != ":memory:":
        return name == str(given)
    return name.startswith(TEST_DATABASE_PREFIX) or name == ":memory:" or "mode=memory" in name


def _place(url: str) -> tuple[str, str]:
    """Return the kind of a store and its file or database; a host may have several names."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return "sqlite", str(Path(url.removeprefix("sqlite:///").partition("?")[0]).resolve())
    return "postgresql" if parts.scheme == "postgres" else parts.scheme, unquote(parts.path)
