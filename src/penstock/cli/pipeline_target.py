"""MODULE:FUNCTION of a pipeline command: the user's function, and its declared options."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from .pipeline_options import JobFlags
from .target import load

if TYPE_CHECKING:
    from penstock.pipeline.declared import Pipeline

Flags = TypeVar("Flags", bound=JobFlags)


def pipeline_at(target: str) -> "Pipeline":
    """Return the named pipeline: a declared one, or one made of a function."""
    from penstock.pipeline.declared import Pipeline

    found = load(target, "pipelines:revenue")
    if not callable(found):
        raise click.UsageError(f"{target} is {type(found).__name__}, not a function")
    return found if isinstance(found, Pipeline) else Pipeline(function=found, target=target)


def registered(target: str) -> Any:
    """Return the event types of an outbox."""
    found = getattr(load(target, "shop:outbox"), "event_types", None)
    if found is None:
        raise click.UsageError(f"{target} is not an Outbox")
    return found


def declare(ctx: click.Context, found: "Pipeline", flags: Flags) -> Flags:
    """Return the flags with a pipeline's declared options where none was given."""
    from penstock.pipeline.lake.paths import table_path

    declared: dict[str, Any] = {
        "topic": found.source,
        "to": None if found.folder is None else table_path("sink", found.folder),
        "mode": found.mode,
        "key": ",".join(found.key) or None,
        "partition_by": found.partition_by,
    }
    default = ParameterSource.DEFAULT
    left = {name: each for name, each in declared.items() if ctx.get_parameter_source(name) is default}
    flags = replace(flags, **left)
    if found.topic is not None or found.writes_itself:
        names = "mode", "key", "partition_by"
        refused = [name for name in names if getattr(flags, name) != declared[name]]
        if refused:
            raise click.UsageError(f"--{refused[0].replace('_', '-')} is for a pipeline into a table")
    return flags
