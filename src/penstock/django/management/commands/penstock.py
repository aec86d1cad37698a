"""`manage.py penstock …`: the command line of Penstock, with the project's store and outbox."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand

from penstock.cli import main

from ... import project
from ...connections import database_url


class Command(BaseCommand):  # type: ignore[misc]  # Django brings no types
    """Runs `penstock` with the store and the outbox of the settings."""

    help = "Run a penstock command, such as worker, with this project's database and outbox."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Accept all remaining arguments unparsed."""
        parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND …")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command; an exit code other than 0 ends the program."""
        names = project.names()
        defaults: dict[str, Any] = {
            "url": database_url(project.alias()),
            "prefix": names.prefix,
            "schema": names.schema,
        }
        if project.outbox_name() is not None:
            defaults |= {"target": project.outbox_name(), "targets": [project.outbox_name()]}
        try:
            main(options["arguments"] or ["--help"], defaults=defaults)
        except SystemExit as ended:
            if ended.code:
                raise
