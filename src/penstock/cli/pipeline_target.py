"""MODULE:FUNCTION of a pipeline command: the user's function, and its declared options."""

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from .target import load


def function_at(target: str) -> Callable[..., Any]:
    """Return the named function or declared pipeline."""
    found = load(target, "pipelines:revenue")
    if not callable(found):
        raise click.UsageError(f"{target} is {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]  # it is the user's


def registered(target: str) -> Any:
    """Return the event types of an outbox."""
    found = getattr(load(target, "shop:outbox"), "event_types", None)
    if found is None:
        raise click.UsageError(f"{target} is not an Outbox")
    return found


def declare(ctx: click.Context, found: Any, given: dict[str, Any]) -> None:
    """Use a pipeline's declared options where none was given."""
    from penstock.pipeline.lake.paths import table_path

    declared = {
        "topic": found.source,
        "to": None if found.folder is None else table_path("sink", found.folder),
        "mode": found.mode,
        "key": ",".join(found.key) or None,
        "partition_by": found.partition_by,
    }
    for name, value in declared.items():
        if ctx.get_parameter_source(name) is ParameterSource.DEFAULT:
            given[name] = value
    if found.topic is not None or found.writes_itself:
        refused = [name for name in ("mode", "key", "partition_by") if given[name] != declared[name]]
        if refused:
            raise click.UsageError(f"--{refused[0].replace('_', '-')} is for a pipeline into a table")
