"""`penstock pipeline`: topics into lakehouse tables, with Spark."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .asking import confirm
from .listen_address import ListenAddressType, insecure_option
from .options import Decorator, json_option, opened, prefix_option, schema_option, url_option
from .output import cell, print_json
from .pipeline_upkeep import erase_rows, optimize_tables, path_argument, show_history, vacuum_tables
from .tables import print_table
from .target import load

if TYPE_CHECKING:
    from penstock.pipeline.storage import Location


def _folder(ctx: click.Context, param: click.Parameter, given: str | None) -> "Location | None":
    """Return a folder by its path or address; addresses of other kinds are refused, not taken for a path."""
    from penstock.pipeline.paths import table_path

    return None if given is None else table_path("--to", given)


def _checkpoint(ctx: click.Context, param: click.Parameter, given: str | None) -> Path | None:
    """Return a folder on a disk. Raises InvalidOption for an address of another kind."""
    from penstock.pipeline.paths import local_path

    return None if given is None else local_path("--checkpoint", given)


def _partitioning(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """Return what was given if it can be read."""
    from penstock.pipeline.partitioning import Partitioning

    Partitioning.parse(given)
    return given


def _to_option(*, required: bool) -> Decorator:
    found: Decorator = click.option(
        "--to",
        required=required,
        metavar="FOLDER",
        callback=_folder,
        help="The folder to write to, or s3://BUCKET/FOLDER; a folder also keeps the pipeline's checkpoint."
        + ("" if required else "  [default: as the pipeline declares]"),
    )
    return found


def _job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options: list[Decorator] = [
        url_option,
        prefix_option,
        schema_option,
        click.option("--topic", default="events", show_default=True, help="The topic to read."),
        click.option("--once", is_flag=True, help="Take what the log holds now, then end."),
        click.option(
            "--from",
            "starting",
            default="earliest",
            show_default=True,
            help='Where a new table begins: earliest, latest, or {"events": {"0": 12}}.',
        ),
        click.option(
            "--allow-loss", is_flag=True, help="Go on when retention has removed what was not read yet."
        ),
        click.option("--batch-records", type=click.IntRange(1), help="The most records in one micro-batch."),
        click.option(
            "--small-batch-seconds",
            type=click.FloatRange(0),
            help="Least time between two micro-batches when little comes.  "
            "[default: the setting pipeline.small_batch_seconds]",
        ),
        click.option(
            "--partition-by",
            metavar="UNIT(COLUMN)",
            callback=_partitioning,
            help="Cut new tables into parts by time: year, month, day or hour of a column, "
            "as in day(timestamp).",
        ),
        click.option(
            "--mode",
            type=click.Choice(["append", "upsert", "complete"]),
            default="append",
            show_default=True,
            help="Add every row; keep the latest of each key; or (run) replace all by each result.",
        ),
        click.option(
            "--key",
            metavar="COLUMN[,COLUMN]",
            help="With --mode upsert: what tells rows apart.  [lake: key, that of the record]",
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
            help="Of Iceberg tables: a REST catalog.  [default: a file in the folder]",
        ),
        click.option(
            "--namespace",
            help="Of Iceberg tables: their namespace in the catalog.  [default: the folder's name]",
        ),
        click.option(
            "--checkpoint",
            metavar="FOLDER",
            callback=_checkpoint,
            help="Of a lake in an object store: where Spark's checkpoint is kept, on a disk.",
        ),
        click.option("--master", help="Where Spark runs.  [default: the setting pipeline.master]"),
        click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's own."),
        click.option(
            "--http",
            type=ListenAddressType(),
            help="Serve /metrics, /healthz and /readyz there; port 0 picks a free one.",
        ),
        insecure_option,
        click.option("--ui", is_flag=True, help="Serve Spark's own pages, and say where."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.group("pipeline")
def command() -> None:
    """Take topics into lakehouse tables with Spark, each record once."""


@command.command("lake")
@click.option(
    "--types",
    metavar="MODULE:OUTBOX",
    help="The fields of the types registered there become columns; what does not fit goes to table rejected.",
)
@_to_option(required=True)
@_job_options
def lake(types: str | None, **given: Any) -> None:
    """Put a topic into tables, one for each event type."""
    from .pipeline_course import run_lake

    run_lake(given | {"types": None if types is None else _registered(types)})


def _registered(target: str) -> Any:
    """Return the event types of an outbox."""
    found = getattr(load(target, "shop:outbox"), "event_types", None)
    if found is None:
        raise click.UsageError(f"{target} is no Outbox")
    return found


@command.command("run")
@click.argument("pipeline", metavar="MODULE:FUNCTION")
@_to_option(required=False)
@_job_options
@click.pass_context
def run(ctx: click.Context, /, pipeline: str, **given: Any) -> None:
    """Run your own function, DataFrame in and DataFrame out, into a table or a topic.

    The function gets the topic as a streaming DataFrame with the columns key, value, type, headers, topic,
    partition, offset and timestamp, and returns one with the rows to append. What @pipeline declares beside
    it holds where the command does not say otherwise.
    """
    from penstock.pipeline.declared import Pipeline

    from .pipeline_course import run_declared, run_function

    found = load(pipeline, "pipelines:revenue")
    if not callable(found):
        raise click.UsageError(f"{pipeline} is {type(found).__name__}, not a function")
    given["types"] = None
    if isinstance(found, Pipeline):
        _declare(ctx, found, given)
    if given["to"] is None:
        raise click.UsageError("Missing option '--to': the folder to write to, or of the checkpoint")
    if isinstance(found, Pipeline):
        run_declared(found, given)
    else:
        run_function(pipeline, found, given)


def _declare(ctx: click.Context, found: Any, given: dict[str, Any]) -> None:
    """Let what a pipeline declares hold where no option was given."""
    from penstock.pipeline.paths import table_path

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
    if found.topic is not None or found.each_batch:
        refused = [name for name in ("mode", "key", "partition_by") if given[name] != declared[name]]
        if refused:
            raise click.UsageError(f"--{refused[0].replace('_', '-')} is for a pipeline into a table")


@command.command("list")
@path_argument
@json_option
def list_tables(path: "Location", as_json: bool) -> None:
    """List the tables of a folder: rows, files, bytes."""
    from penstock.pipeline.tables import describe

    found = describe(path.absolute())
    if as_json:
        print_json(found)
        return
    rows = [
        (cell(each.name), *(f"{n:,}" for n in (each.size.rows, each.size.files, each.size.bytes)))
        for each in found
    ]
    print_table(("table", "rows", "files", "bytes"), rows)


@command.command("show")
@path_argument
@json_option
def show(path: "Location", as_json: bool) -> None:
    """Show up to which offset each table holds its topics."""
    from penstock.pipeline.tables import describe

    found = describe(path.absolute())
    if as_json:
        print_json(found)
        return
    rows = [
        (cell(each.name), cell(source.topic), str(partition), f"{end:,}")
        for each in found
        for source in each.sources
        for partition, end in sorted(source.ends.items())
        if end
    ]
    print_table(("table", "topic", "partition", "up to"), rows)


command.add_command(optimize_tables)
command.add_command(vacuum_tables)
command.add_command(erase_rows)
command.add_command(show_history)


@command.command("reset")
@path_argument
@click.option("--rebuild", is_flag=True, help="Remove the tables, too; the next run makes them from the log.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    help="With --rebuild: only this table of a lake; the others and the checkpoint stay.",
)
@click.option(
    "--from-table",
    is_flag=True,
    help="After a restored backup: cut the tables back to where they agree with the log, and go on there.",
)
@click.option("--url", envvar="PENSTOCK_URL", help="With --from-table: the store.")
@prefix_option
@schema_option
@click.option("--topic", default="events", show_default=True, help="With --from-table: the topic.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset_pipeline(path: "Location", rebuild: bool, tables: tuple[str, ...], yes: bool, **given: Any) -> None:
    """Forget a pipeline's checkpoint; a stateless one goes on where its tables end.

    A pipeline that keeps state (windows, joins) cannot go on with a new checkpoint: use --rebuild. A table is
    made again from what the log still holds: what retention has deleted there is not in it.
    """
    from penstock.pipeline.lake_state import reset

    if tables and not rebuild:
        raise click.UsageError("--table names what to make again: say --rebuild")
    if given["from_table"] and (rebuild or not given["url"]):
        raise click.UsageError("--from-table needs --url, and no --rebuild")
    what = "the checkpoint and all tables" if rebuild else "the checkpoint"
    if given["from_table"]:
        what = "the checkpoint, and all rows that the log does not hold any more,"
    if not yes:
        confirm(f"remove {' and '.join(tables) or what} of {path}?")
    if given["from_table"]:
        _cut_back(path, given)
        return
    removed = reset(path.absolute(), rebuild=rebuild, tables=tables)
    for each in removed:
        click.echo(f"removed {each}")
    if not removed:
        click.echo(f"nothing to remove: {path} has no pipeline")


def _cut_back(path: "Location", given: dict[str, Any]) -> None:
    from penstock.pipeline.taken_back import cut_back

    with opened(given["url"], given["prefix"], given["schema"]) as store:
        done = cut_back(path.absolute(), store.log, store.log.topic(given["topic"]))
    where = f": {done.said()}" if done.places else ""
    click.echo(f"removed the checkpoint and {done.rows:,} rows{where}")
