"""`penstock pipeline`: topics into lakehouse tables, with Spark."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import click

from penstock.clock import SYSTEM
from penstock.errors import Error
from penstock.log.sql.naming import Names
from penstock.signals import hearing

from .options import Decorator, json_option, opened, prefix_option, schema_option, url_option
from .output import print_json, print_table
from .target import load

_LOOK_SECONDS = 0.2

path_argument: Decorator = click.argument("path", type=click.Path(file_okay=False, path_type=Path))


def _folder(ctx: click.Context, param: click.Parameter, given: str) -> Path:
    """Return a folder by its path or file:// address; other addresses are refused, not taken for a path."""
    from penstock.pipeline.paths import table_path

    return table_path("--to", given)


to_option: Decorator = click.option(
    "--to",
    required=True,
    metavar="FOLDER",
    callback=_folder,
    help="The folder to write to; it also keeps the pipeline's checkpoint.",
)


def _job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options: list[Decorator] = [
        url_option,
        prefix_option,
        schema_option,
        click.option("--topic", default="events", show_default=True, help="The topic to read."),
        to_option,
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
        click.option("--master", help="Where Spark runs.  [default: the setting pipeline.master]"),
        click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's own."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.group("pipeline")
def command() -> None:
    """Take topics into lakehouse tables with Spark, each record once."""


@command.command("lake")
@_job_options
def lake(**given: Any) -> None:
    """Put a topic into Delta tables, one for each event type."""
    from penstock.pipeline.query import start_lake

    _run("lake", start_lake, given)


@command.command("run")
@click.argument("pipeline", metavar="MODULE:FUNCTION")
@_job_options
def run(pipeline: str, **given: Any) -> None:
    """Run your own function, DataFrame in and DataFrame out, into a Delta table.

    The function gets the topic as a streaming DataFrame with the columns key, value, type, headers, topic,
    partition, offset and timestamp, and returns one with the rows to append.
    """
    from penstock.pipeline.query import start_function

    function = load(pipeline, "pipelines:revenue")
    if not callable(function):
        raise click.UsageError(f"{pipeline} is {type(function).__name__}, not a function")
    _run(pipeline, lambda spark, job: start_function(spark, job, pipeline, function), given)


@command.command("list")
@path_argument
@json_option
def list_tables(path: Path, as_json: bool) -> None:
    """List the tables of a folder: rows, files, bytes."""
    from penstock.pipeline.tables import describe

    found = describe(path.absolute())
    if as_json:
        print_json(found)
        return
    rows = [
        (each.name, *(f"{n:,}" for n in (each.size.rows, each.size.files, each.size.bytes))) for each in found
    ]
    print_table(("table", "rows", "files", "bytes"), rows)


@command.command("show")
@path_argument
@json_option
def show(path: Path, as_json: bool) -> None:
    """Show up to which offset each table holds its topics."""
    from penstock.pipeline.tables import describe

    found = describe(path.absolute())
    if as_json:
        print_json(found)
        return
    rows = [
        (each.name, source.topic, str(partition), f"{end:,}")
        for each in found
        for source in each.sources
        for partition, end in sorted(source.ends.items())
        if end
    ]
    print_table(("table", "topic", "partition", "up to"), rows)


@command.command("vacuum")
@path_argument
@click.option(
    "--older-than",
    "hours",
    type=click.IntRange(0),
    default=24,
    show_default=True,
    help="Hours; what is younger may belong to a batch under way.",
)
@click.option("--dry-run", is_flag=True, help="Remove nothing; show what would go.")
@json_option
def vacuum_tables(path: Path, hours: int, dry_run: bool, as_json: bool) -> None:
    """Remove files that crashes left and that no table points to."""
    from penstock.pipeline.tables import vacuum

    done = vacuum(path.absolute(), older_than_hours=hours, dry_run=dry_run)
    if as_json:
        print_json(done)
        return
    for each in done:
        for file in each.files:
            click.echo(f"{each.table}/{file}")
    word = "would go" if dry_run else "removed"
    click.echo(f"{sum(len(each.files) for each in done)} files {word}")


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
def reset_pipeline(path: Path, rebuild: bool, tables: tuple[str, ...], yes: bool, **given: Any) -> None:
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
        click.confirm(f"remove {' and '.join(tables) or what} of {path}?", abort=True)
    if given["from_table"]:
        _cut_back(path, given)
        return
    for each in reset(path.absolute(), rebuild=rebuild, tables=tables):
        click.echo(f"removed {each}")


def _cut_back(path: Path, given: dict[str, Any]) -> None:
    from penstock.pipeline.offsets import said
    from penstock.pipeline.taken_back import cut_back

    with opened(given["url"], given["prefix"], given["schema"]) as store:
        done = cut_back(path.absolute(), store.log, store.log.topic(given["topic"]))
    where = f": {said(done.places)}" if done.places else ""
    click.echo(f"removed the checkpoint and {done.rows:,} rows{where}")


def _run(title: str, start: Callable[[Any, Any], Any], given: dict[str, Any]) -> None:
    """Start Spark and the query, tell how it goes, and stop it cleanly when asked to."""
    from penstock.pipeline.lake_state import finish_reset
    from penstock.pipeline.query import Job
    from penstock.pipeline.reader import PipelineReader
    from penstock.pipeline.rebuild import make_again
    from penstock.pipeline.session import session

    job = Job(
        url=_absolute(given["url"]),
        topic=given["topic"],
        to=given["to"],
        names=Names(given["prefix"], given["schema"]),
        starting=given["starting"],
        once=given["once"],
        fail_on_loss=not given["allow_loss"],
        batch_records=given["batch_records"],
    )
    for each in finish_reset(job.to):
        click.echo(f"a reset was cut short: removed {each}", err=True)
    reader = PipelineReader(job)
    reader.begin()  # what is wrong from the start is not tried again, and said before Spark is up
    click.echo(f"starting Spark; {job.topic} goes to {job.to}, read as {reader.name}", err=True)

    def begin(spark: Any) -> Any:
        reader.begin()
        for name in make_again(spark, job):
            click.echo(f"made table {name} again from the log", err=True)
        return start(spark, job)

    name = f"penstock {title}"
    with (
        session(name, master=given["master"], conf=_conf(given["conf"])) as spark,
        _asked_to_stop() as asked,
    ):
        _Course(asked, lambda each: reader.moved(each.ends)).run(lambda: begin(spark))


class _Course:
    """A pipeline from its start to its end, tried again when something interrupts it that passes."""

    def __init__(self, asked: Event, moved: Callable[[Any], None]) -> None:
        from penstock.pipeline.retrying import Retrying
        from penstock.pipeline.settings import PipelineSettings

        settings = PipelineSettings.load()
        self._asked, self._moved = asked, moved
        self._stop_seconds, self._limit = settings.stop_seconds, settings.retry_seconds
        self._retrying = Retrying(self._limit)
        self._line = _Line()
        self._rows = self._batches = 0

    def run(self, begin: Callable[[], Any]) -> None:
        while True:
            try:
                running = begin()
                self._follow(running)
                running.check()
                break
            except Error as exc:
                self._line.end()
                pause = self._retrying.pause_after(exc)
                if pause is None or self._asked.is_set():
                    raise
                if self._retrying.is_new(exc):
                    click.echo(f"{exc}; trying again, for {self._limit:,.0f} s at most", err=True)
                if self._asked.wait(pause):
                    break
        word = "stopped" if self._asked.is_set() else "done"
        click.echo(f"{word}: {self._rows:,} rows in {self._batches:,} batches")

    def _follow(self, running: Any) -> None:
        deadline: float | None = None
        active = True
        while active:
            active = running.active  # read before the progress, so that the last batch is shown, too
            for each in running.progress():
                self._tell(each)
            if self._asked.is_set() and deadline is None:
                deadline = SYSTEM.monotonic() + self._stop_seconds
                self._line.show("stopping after this batch")
            if deadline is not None and (not running.busy or SYSTEM.monotonic() > deadline):
                running.stop()
            (self._asked if deadline is None else Event()).wait(_LOOK_SECONDS if active else 0)
        self._line.end()

    def _tell(self, each: Any) -> None:
        self._retrying.went_well()
        self._moved(each)
        self._rows, self._batches = self._rows + each.rows, self._batches + 1
        self._line.show(
            f"batch {each.batch}: {each.rows:,} rows, {each.rows_per_second:,.0f} rows/s, "
            f"{each.seconds:.1f} s, lag {each.lag:,}, {self._rows:,} rows in all"
        )


class _Line:
    """A line that rewrites itself on a terminal; elsewhere one line after another."""

    def __init__(self) -> None:
        self._width = 0
        self._terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self._terminal:
            click.echo(f"\r{text.ljust(self._width)}", err=True, nl=False)
            self._width = len(text)
        else:
            click.echo(text, err=True)

    def end(self) -> None:
        if self._terminal and self._width:
            click.echo(err=True)
            self._width = 0


@contextmanager
def _asked_to_stop() -> Iterator[Event]:
    """Give an event that SIGTERM and SIGINT set; a second signal ends the program as it would without us."""
    asked = Event()
    with hearing(lambda _: asked.set(), once=True):
        yield asked


def _absolute(url: str) -> str:
    """Return a URL that means the same file in Spark's processes."""
    path = url.removeprefix("sqlite:///")
    return url if path == url else f"sqlite:///{Path(path).absolute()}"


def _conf(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    for name, found, _ in pairs:
        if not name or not found:
            raise click.BadParameter(f"{name!r} must be KEY=VALUE", param_hint="--conf")
    return {name: value for name, _, value in pairs}
