"""MODULE:NAME: an object in the user's code, as a command's argument."""

import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

import click

T = TypeVar("T")


def load(target: str, example: str, kind: type | None = None) -> Any:
    """Return the object that MODULE:NAME names; the current folder is searched first.

    `kind`: the class of the object; if there is no such name, the names of this kind are listed.
    """
    module, _, name = target.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        as_file = "; name the module, not its file" if "/" in module or module.endswith(".py") else ""
        raise click.UsageError(f"{target!r} must be MODULE:NAME, such as {example}{as_file}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return resolve_name(target)
    except ModuleNotFoundError as exc:
        if exc.name is None or not (module == exc.name or module.startswith(f"{exc.name}.")):
            raise  # the module exists, but an import of its own fails
        raise click.UsageError(
            f"module {module!r} is neither here nor installed; go to the folder of your code, or set PYTHONPATH"
        ) from None
    except AttributeError as exc:
        if name.split(".")[0] in str(exc):
            raise click.UsageError(f"{module} has no {name!r}{_those_of(module, kind)}") from None
        raise


def load_a(kind: type[T], target: str, example: str) -> T:
    """Return the object of a kind that MODULE:NAME names. Raises UsageError."""
    found = load(target, example, kind)
    if not isinstance(found, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise click.UsageError(f"{target} is {type(found).__name__}, not {article} {kind.__name__}")
    return found


def _those_of(module: str, kind: type | None) -> str:
    """Return the names of objects of a kind in a module that is loaded, for a message."""
    if kind is None:
        return ""
    names = sorted(name for name, each in vars(sys.modules[module]).items() if isinstance(each, kind))
    return f"; {kind.__name__} there: {', '.join(names)}" if names else f", and no {kind.__name__}"
