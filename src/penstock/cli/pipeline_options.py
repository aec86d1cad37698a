"""Options that pipeline commands share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .listeners import ListenAddress, ListenAddressType, insecure_option
from .options import Decorator, prefix_option, schema_option, url_option
from .units import size

if TYPE_CHECKING:
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
    """Return the option if it can be parsed."""
    from penstock.pipeline.lake.routing import Partitioning

    Partitioning.parse(given, "--partition-by")
    return given


def to_option(
    *,
    required: bool,
    help: str = "The folder to write to, or s3://BUCKET/FOLDER; a folder also keeps the pipeline's checkpoint.",
) -> Decorator:
    """Return the option that names the folder."""
    found: Decorator = click.option(
        "--to",
        required=required,
        metavar="FOLDER",
        callback=_folder,
        help=help + ("" if required else "  [default: as the pipeline declares]"),
    )
    return found


def _bytes(ctx: click.Context, param: click.Parameter, given: str | None) -> int | None:
    return None if given is None else size(given)


types_option: Decorator = click.option(
    "--types",
    metavar="MODULE:OUTBOX",
    help="The fields of its registered types become columns; rows that do not fit go to table rejected.",
)
_READING: list[Decorator] = [
    url_option,
    prefix_option,
    schema_option,
    click.option("--topic", default="events", show_default=True, help="The topic to read."),
    click.option("--allow-loss", is_flag=True, help="Continue if retention has removed unread records."),
    click.option("--batch-records", type=click.IntRange(1), help="The most records in one micro-batch."),
    click.option(
        "--batch-bytes",
        callback=_bytes,
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


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a running pipeline."""
    return _all(function, [*_READING, *_WRITING, *_COURSE])


def replay_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add those that a replay has, too."""
    return _all(function, [*_READING, *_WRITING])


def _all(function: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    for option in reversed(options):
        function = option(function)
    return function
