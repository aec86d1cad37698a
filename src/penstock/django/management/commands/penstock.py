"""`manage.py penstock …`: the command line of Penstock, which knows the project's store and outbox."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand

from penstock.cli import main

from ... import project
from ...connections import database_url


class Command(BaseCommand):  # type: ignore[misc]  # Django brings no types
    """Passes on to `penstock`, with the store and the outbox that the settings name."""

    help = "Run a penstock command, such as worker, with this project's database and outbox."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take all that follows as it is."""
        parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND …")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it; an exit code other than 0 ends the program with it."""
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
