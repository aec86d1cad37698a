"""Options that pipeline commands share, and the function or the outbox that their arguments name."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from .listeners import ListenAddress, ListenAddressType, insecure_option
from .options import Decorator, location_options, with_options
from .target import load
from .units import size

if TYPE_CHECKING:
    from penstock.pipeline.declared import Pipeline
    from penstock.pipeline.lake.storage import Location


def _folder(ctx: click.Context, param: click.Parameter, given: str | None) -> "Location | None":
    """Return a folder by its path or URL; other URLs are refused rather than taken as a path."""
    from penstock.pipeline.lake.paths import table_path

    return None if given is None else table_path("--to", given)


def _checkpoint(ctx: click.Context, param: click.Parameter, given: str | None) -> Path | None:
    """Return a folder on a disk. Raises InvalidOption for a URL."""
    from penstock.pipeline.lake.paths import local_path

    return None if given is None else local_path("--checkpoint", given)


def _partitioning(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    from penstock.pipeline.lake.routing import Partitioning

    Partitioning.parse(given, "--partition-by")
    return given


def to_option(
    *,
    required: bool,
    help: str = "The folder to write to, or s3://BUCKET/FOLDER; a folder also keeps the pipeline's checkpoint.",
) -> Decorator:
    """Return the option that names the folder."""
    help += "" if required else "  [default: as the pipeline declares]"
    return click.option("--to", required=required, metavar="FOLDER", callback=_folder, help=help)


types_option: Decorator = click.option(
    "--types",
    metavar="MODULE:OUTBOX",
    help="The fields of its registered types become columns; rows that do not fit go to table rejected.",
)
_READING: list[Decorator] = [
    location_options,
    click.option("--topic", default="events", show_default=True, help="The topic to read."),
    click.option("--allow-loss", is_flag=True, help="Continue if retention has removed unread records."),
    click.option("--batch-records", type=click.IntRange(1), help="The most records in one micro-batch."),
    click.option(
        "--batch-bytes",
        type=size,
        metavar="SIZE",
        help="The most bytes of one micro-batch, such as 256MB; a larger record comes alone.  "
        "[default: the setting pipeline.batch_bytes]",
    ),
]
_WRITING: list[Decorator] = [
    click.option(
        "--partition-by",
        metavar="UNIT(COLUMN)",
        callback=_partitioning,
        help="Partition new tables by time: year, month, day or hour of a column, as in day(timestamp).",
    ),
    click.option(
        "--mode",
        type=click.Choice(["append", "upsert", "complete"]),
        default="append",
        show_default=True,
        help="Add every row; keep the latest of each key; or (run) replace all rows with each result.",
    ),
    click.option(
        "--key",
        metavar="COLUMN[,COLUMN]",
        help="With --mode upsert: the columns that identify a row.  [lake: key, that of the record]",
    ),
    click.option(
        "--format",
        type=click.Choice(["delta", "iceberg"]),
        default="delta",
        show_default=True,
        help="The format of the tables.",
    ),
    click.option(
        "--catalog",
        metavar="URL",
        help="For Iceberg tables: a REST catalog, or a PostgreSQL database.  [default: a file in the folder]",
    ),
    click.option(
        "--namespace",
        help="For Iceberg tables: their namespace in the catalog.  "
        "[default: the folder's name, as letters, digits and _]",
    ),
    click.option(
        "--checkpoint",
        metavar="FOLDER",
        callback=_checkpoint,
        help="For a lake in an object store: a folder on a disk for Spark's checkpoint.",
    ),
    click.option("--master", help="Where Spark runs.  [default: the setting pipeline.master]"),
    click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting."),
]
_COURSE: list[Decorator] = [
    click.option("--once", is_flag=True, help="Copy what the log holds now, then end."),
    click.option(
        "--from",
        "starting",
        default="earliest",
        show_default=True,
        help='Where a new table begins: earliest, latest, or {"events": {"0": 12}}.',
    ),
    click.option(
        "--small-batch-seconds",
        type=click.FloatRange(0),
        help="Least time between two micro-batches while few records come.  "
        "[default: the setting pipeline.small_batch_seconds]",
    ),
    click.option(
        "--http", type=ListenAddressType(), help="Serve /metrics, /healthz and /readyz there; port 0 picks a free one."
    ),
    insecure_option,
    click.option("--ui", is_flag=True, help="Serve Spark's web UI, and print its address."),
]


@dataclass(frozen=True, kw_only=True)
class JobFlags:
    """The options of a command that runs a pipeline. `types`: the event types whose fields become columns."""

    url: str
    prefix: str
    schema: str | None
    topic: str
    allow_loss: bool
    batch_records: int | None
    batch_bytes: int | None
    to: Any
    partition_by: str | None
    mode: str
    key: str | None
    format: str
    catalog: str | None
    namespace: str | None
    checkpoint: Path | None
    master: str | None
    conf: tuple[str, ...]
    types: Any = None
    once: bool = False
    starting: str = "earliest"
    small_batch_seconds: float | None = None
    http: ListenAddress | None = None
    insecure: bool = False
    ui: bool = False


@dataclass(frozen=True, kw_only=True)
class ReplayFlags(JobFlags):
    """Those of a replay, which always ends."""

    first: str
    last: str
    to_topic: str | None
    dry_run: bool
    yes: bool
    as_json: bool
    once: bool = True


job_options = with_options(*_READING, *_WRITING, *_COURSE)
replay_options = with_options(*_READING, *_WRITING)

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
