"""The `penstock` command: its subcommands, each imported only when it is called.

A subcommand parses, joins the rooms, prints and returns. An error ends here as one sentence on standard error
and an exit code of `exit_codes.py`, never as a traceback (unless PENSTOCK_TRACEBACK is set).
"""

import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from penstock.errors import Error
from penstock.errors.settings import DISTRIBUTION
from penstock.logs import one_line

from .exit_codes import FAILED, exit_code

# The subcommands with their help lines.
COMMANDS = {
    "demo": "Run a small shop on SQLite and show that nothing is lost.",
    "worker": "Run the handlers of an outbox until it is stopped.",
    "serve": "Serve a store to Kafka clients, over HTTP, over gRPC and to TinyQ clients until it is stopped.",
    "console": "Show a store in a browser until it is stopped.",
    "top": "Show a store at a glance until it is stopped.",
    "access": "Check, list, add or remove access rules; hash secrets; make certificates.",
    "tail": "Print the records of a topic, and new ones as they come, until it is stopped.",
    "produce": "Add the lines of standard input to a topic, one record each, as they come.",
    "handlers": "List the handlers of an outbox, each with its match, its retry policy and its limits.",
    "check": "Compare the handlers of an outbox with its store, and show events without a handler.",
    "migrate": "Bring Penstock's tables in a database up to date.",
    "drop": "Drop Penstock's tables and everything in them.",
    "pipeline": "Copy topics into lakehouse tables with Spark, each record once.",
    "reconcile": "Compare your table, the log, the groups and the lake, and show the differences.",
    "topics": "List, show, create, grow, set, clear or delete topics.",
    "groups": "List, show, pause, resume, reset, catch up or delete groups.",
    "events": "List the events in a state, show one, or delete those of a state before a moment.",
    "scheduled": "List, show, cancel or run now the scheduled events.",
    "periodic": "List, show, pause, resume, run now or remove the schedules of periodic events.",
    "dead": "List, show, requeue, skip or discard the records that handlers gave up.",
    "lanes": "List the waiting keys, and why they wait.",
    "audit": "List the audit entries of a store, newest first.",
    "why": "Explain why a key, a record or a group has not been delivered.",
    "lab": "Kill your handlers at every commit point, and show which are not idempotent.",
    "restored": "Declare that this store was restored from a backup, or failed over with a loss.",
    "retain": "Delete the records that are past their retention.",
    "log": "Verify, index or dump the segments of a log in files.",
    "erase": "Erase all events that were published with this owner tag, in every state.",
    "doctor": "Check this machine and a store, and show what each missing part would enable.",
}

# Those that share a module, as its `NAME_command`; each other one is the `command` of the module of its name.
_SHARED = {
    **dict.fromkeys(("handlers", "check"), "handlers"),
    **dict.fromkeys(("migrate", "restored", "retain", "erase", "drop", "audit"), "store"),
    **dict.fromkeys(("tail", "produce"), "records"),
    **dict.fromkeys(("why", "lanes"), "why"),
}


class _Lazy(click.Group):
    """A group that knows its subcommands by name and imports one on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"penstock.cli.{_SHARED.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command" if cmd_name in _SHARED else "command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        found = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return found or super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=DISTRIBUTION, prog_name="penstock")
def group() -> None:
    """Move events from your database to your lakehouse."""
    _warn_of_misspelt()


def main(args: list[str] | None = None, *, defaults: Mapping[str, str | None] | None = None) -> Any:
    """Run the command line and exit; `defaults`: the defaults for options of any command."""
    try:
        spread = {name: _spread(name, defaults) for name in (args or ())[:1]} if defaults else None
        sys.exit(group.main(args, prog_name="penstock", standalone_mode=False, default_map=spread))
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
    except click.ClickException as exc:
        exc.show()
        sys.exit(exc.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except Exception as exc:
        if os.environ.get("PENSTOCK_TRACEBACK"):
            raise
        click.echo(f"error: {_sentence(exc)}", err=True)
        sys.exit(exit_code(exc) if isinstance(exc, Error) else FAILED)


def _warn_of_misspelt() -> None:
    if not any(name.startswith("PENSTOCK_") for name in os.environ):
        return
    from penstock.settings import misspelt

    for name, alike in misspelt().items():
        near = get_close_matches(name, alike, 1, 0) or alike
        click.echo(f"warning: there is no setting {name}; did you mean {near[0]}?", err=True)


def _spread(name: str, defaults: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the defaults of a command and its subcommands in click's form."""
    command = group.get_command(click.Context(group), name)
    beneath = command.commands if isinstance(command, click.Group) else {}
    return {**defaults, **{each: dict(defaults) for each in beneath}}


def _sentence(error: Exception) -> str:
    """Return an error as one line; a foreign one (a driver's, the system's) with its class."""
    if isinstance(error, Error):
        return one_line(str(error))
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {one_line(text)}; set PENSTOCK_TRACEBACK=1 for the traceback"
