"""The run of a pipeline: its job from the options, Spark, the query, and its upkeep."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import click

from penstock.database.address import short_name
from penstock.database.naming import Names
from penstock.database.url import plain_url
from penstock.errors import Error
from penstock.log.contract import Log
from penstock.log.files.url import directory_in
from penstock.pipeline.declared import Pipeline
from penstock.pipeline.kafka_address import is_kafka
from penstock.pipeline.kinds import ICEBERG
from penstock.pipeline.lake_state import finish_reset
from penstock.pipeline.modes import APPEND, Mode, check_lake
from penstock.pipeline.paths import check_catalog
from penstock.pipeline.query import (
    FrameFunction,
    Job,
    Running,
    start_declared,
    start_function,
    start_lake,
)
from penstock.pipeline.reach import check_reach, is_local
from penstock.pipeline.reader import PipelineReader
from penstock.pipeline.rebuild import make_again
from penstock.pipeline.series import PipelineSeries
from penstock.pipeline.session import session
from penstock.pipeline.settings import PipelineSettings
from penstock.pipeline.sink import begin_iceberg, check_delta
from penstock.pipeline.storage import Location, storage_of
from penstock.pipeline.upkeep import LakeUpkeep
from penstock.pipeline.view import open_view
from penstock.pipeline.write_back import WriteTarget
from penstock.signals import hearing

from .listeners import refuse_open
from .options import opened
from .pipeline_following import PipelineCourse
from .pipeline_reset import describe_reset
from .service import send_spans

PipelineStart = Callable[[Any, Job], Running]


def run_lake(given: dict[str, Any]) -> None:
    """Copy a topic into one table per event type, by the options."""
    typed = check_lake(_mode(given, ()), given["partition_by"])  # before Spark starts
    if typed:
        with suppress(Error):  # problems of the tables are reported when they are written
            for sentence in typed.unfilled(given["to"]):
                click.echo(sentence, err=True)
    _run("lake", start_lake, given)


def run_declared(declared: Pipeline, given: dict[str, Any]) -> None:
    """Run a pipeline that a module declares, by the options."""
    check_place(declared, given["to"])
    _run(declared.name, starting(declared), given, topic=declared.topic)


def check_place(declared: Pipeline, to: Location) -> None:
    """Refuse a bucket for a pipeline without tables: with a new checkpoint it would start over."""
    if (declared.topic is not None or declared.writes_itself) and not storage_of(to).keeps_checkpoints:
        raise click.UsageError(
            f"{declared.name} has no tables to resume from, so only its checkpoint holds its place: "
            "name a folder on a disk with --to"
        )


def starting(declared: Pipeline) -> PipelineStart:
    """Return the function that starts a declared pipeline."""
    return lambda spark, job: start_declared(spark, job, declared)


def run_function(name: str, function: FrameFunction, given: dict[str, Any]) -> None:
    """Run a user's pipeline, by the options."""
    _run(name, lambda spark, job: start_function(spark, job, name, function), given)


def _run(title: str, start: PipelineStart, given: dict[str, Any], topic: str | None = None) -> None:
    """Start Spark and the query, print its progress, and stop it cleanly on a signal."""
    conf = _ui(given) | spark_conf(given["conf"])
    if given["http"] is not None:
        refuse_open("--http", given["http"], insecure=given["insecure"])
        if is_kafka(given["url"]):
            raise click.UsageError("--http serves the metrics of a store; a Kafka cluster has its own")
    send_spans()
    job = job_of(given, topic)
    for sentence in describe_reset(finish_reset(job.to)):
        click.echo(f"completed an interrupted reset: {sentence}", err=True)
    reader = PipelineReader(job)
    reader.check()
    check_format(job)
    reader.begin()  # errors at the start are not retried, and are reported before Spark is up
    click.echo(f"starting Spark; {job.topic} goes to {job.to}, read as {reader.name}", err=True)

    def begin(spark: Any) -> Running:
        reader.begin()
        for name in make_again(spark, job, lambda text: click.echo(text, err=True)):
            click.echo(f"rebuilt table {name} from the log", err=True)
        running = start(spark, job)
        reader.stays()
        return running

    try:
        with (
            _serving(given),
            session(f"penstock {title}", master=given["master"], conf=conf) as spark,
            stop_requested() as requested,
        ):
            if given["ui"]:
                click.echo(f"Spark's pages are at {spark.sparkContext.uiWebUrl}", err=True)
            upkeep = LakeUpkeep(job.to)
            upkeep.start()
            try:
                course = PipelineCourse(requested, PipelineSeries(short_name(job.url), reader.name), reader)
                click.echo(str(course.run(lambda: begin(spark))))
            finally:
                upkeep.stop()
            if job.once:
                upkeep.look()  # a run by cron is too short for the upkeep thread
    except BaseException:
        reader.withdraw()
        raise


def job_of(given: dict[str, Any], topic: str | None = None) -> Job:
    """Return the job of the options; reports its errors before Spark is up.

    `topic`: the target topic of its rows.
    """
    check_reach(given["url"], given["master"] or PipelineSettings.load().master)
    kept_at = _kept_at(given)
    counts = _checked_counts(given)
    url, names = _absolute(given["url"]), Names(given["prefix"], given["schema"])
    if topic is not None:
        WriteTarget(url, names, topic).check()
    if given["format"] != ICEBERG and (given["catalog"] or given["namespace"]):
        raise click.UsageError("--catalog and --namespace are for --format iceberg")
    if given["format"] == ICEBERG:
        check_catalog(given["to"], given["catalog"])
    return Job(
        url=url,
        topic=given["topic"],
        to=given["to"],
        names=names,
        starting=given["starting"],
        once=given["once"],
        fail_on_loss=not given["allow_loss"],
        batch_records=given["batch_records"],
        batch_bytes=given["batch_bytes"],
        small_batch_seconds=given["small_batch_seconds"],
        partition_by=given["partition_by"],
        mode=_mode(given, counts),
        format=given["format"],
        catalog=given["catalog"],
        namespace=given["namespace"],
        kept_at=kept_at,
    )


def check_format(job: Job) -> None:
    """Refuse a folder of tables of the other format."""
    if job.format == ICEBERG:
        begin_iceberg(job.to, job.catalog, job.namespace)
    else:
        check_delta(job.to)


def _kept_at(given: dict[str, Any]) -> Path | None:
    """Return the folder of the checkpoint, unless it is in the target folder."""
    inside, found = storage_of(given["to"]).keeps_checkpoints, given["checkpoint"]
    if inside and found is not None:
        raise click.UsageError("--checkpoint is for a lake in an object store: a folder keeps its own")
    if not inside and found is None:
        raise click.UsageError(
            "Missing option '--checkpoint': an object store cannot keep Spark's checkpoint; name a folder "
            "on a disk that is still there when the pipeline restarts"
        )
    return None if found is None else Path(found)


def _checked_counts(given: dict[str, Any]) -> tuple[int, ...]:
    """Check the store first, with the error messages of commands.

    Return the topic's former and current partition counts, if the mode needs them. Raises UnknownTopic.
    """
    if is_kafka(given["url"]):
        with closing(open_view(given["url"], Names(), given["topic"])) as view:
            return (view.heads().topic.partitions,)
    with opened(given["url"], given["prefix"], given["schema"]) as store:
        counts = _partition_counts(store.log, given["topic"])
        return counts if given["mode"] != APPEND else ()


def _mode(given: dict[str, Any], counts: tuple[int, ...]) -> Mode:
    key = tuple(name.strip() for name in (given["key"] or "").split(",") if name.strip())
    if key and given["mode"] == APPEND:
        raise click.UsageError("--key is for --mode upsert")
    if given["mode"] != APPEND and given["partition_by"]:
        raise click.UsageError(
            "--partition-by is for --mode append; tables of upserts are partitioned by key"
        )
    return Mode(given["mode"], given["types"], key, counts)


def _partition_counts(log: Log, name: str) -> tuple[int, ...]:
    """Return the former partition counts of a topic and its current one."""
    topic = log.topic(name)
    return (*(len(each.ends) for each in log.growths(topic)), topic.partitions)


@contextmanager
def _serving(given: dict[str, Any]) -> Iterator[None]:
    """Serve the metrics of this process while the block runs, if `--http` is given."""
    address = given["http"]
    if address is None:
        yield
        return
    from penstock.app import Outbox
    from penstock.gateway.application import application
    from penstock.gateway.listener import HttpListener

    outbox = Outbox(given["url"], prefix=given["prefix"], schema=given["schema"])
    listener = HttpListener(application([outbox], worker=False), *address)
    listener.open()
    listener.start()
    click.echo(f"http listening on {listener.address}", err=True)
    try:
        yield
    finally:
        listener.stop()
        outbox.close()


@contextmanager
def stop_requested() -> Iterator[Event]:
    """Yield an event that SIGTERM and SIGINT set; a second signal has its default effect."""
    requested = Event()
    with hearing(lambda _: requested.set(), once=True):
        yield requested


def _absolute(url: str) -> str:
    """Return a URL of the same files for Spark's processes."""
    if is_kafka(url):
        return url
    plain = plain_url(url)
    directory = directory_in(plain)
    if directory is not None:
        return f"file://{quote(directory)}"
    path = plain.removeprefix("sqlite:///")
    return plain if path == plain else f"sqlite:///{Path(path).absolute()}"


def _ui(given: dict[str, Any]) -> dict[str, str]:
    """Return the Spark settings for its web UI; a local driver serves it on this machine only."""
    if not given["ui"]:
        return {}
    if is_local(given["master"] or PipelineSettings.load().master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {"spark.ui.enabled": "true"}


def spark_conf(given: tuple[str, ...]) -> dict[str, str]:
    """Return the given Spark settings."""
    pairs = [each.partition("=") for each in given]
    for name, found, _ in pairs:
        if not name or not found:
            raise click.BadParameter(f"{name!r} must be KEY=VALUE", param_hint="--conf")
    return {name: value for name, _, value in pairs}
