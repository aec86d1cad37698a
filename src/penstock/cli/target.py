"""MODULE:NAME: an object in the user's code, as a command's argument."""

import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click


def load(target: str, example: str) -> Any:
    """Return the object that MODULE:NAME names; the current folder is searched first."""
    module, found, name = target.partition(":")
    if not (found and module and name):
        raise click.UsageError(f"{target!r} must be MODULE:NAME, such as {example}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return resolve_name(target)
    except ModuleNotFoundError as exc:
        if exc.name is None or not (module == exc.name or module.startswith(f"{exc.name}.")):
            raise  # the module exists, but an import of its own fails
        raise click.UsageError(
            f"module {module!r} is neither here nor installed; go to the folder of your code, "
            "or set PYTHONPATH"
        ) from None
    except AttributeError as exc:
        if name.split(".")[0] in str(exc):
            raise click.UsageError(f"{module} has no {name!r}") from None
        raise
