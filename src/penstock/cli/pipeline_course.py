"""The run of a pipeline: its job from the options, Spark, the query, and its upkeep."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import click

from penstock.database.address import directory_in, short_name
from penstock.database.naming import Names
from penstock.database.url import plain_url
from penstock.errors import Error
from penstock.pipeline.address import check_reach, is_kafka, is_local
from penstock.pipeline.declared import Pipeline
from penstock.pipeline.lake.kinds import ICEBERG
from penstock.pipeline.lake.modes import APPEND, Mode, check_lake
from penstock.pipeline.lake.paths import check_catalog
from penstock.pipeline.lake.sink import begin_iceberg, check_delta
from penstock.pipeline.lake.state import finish_reset
from penstock.pipeline.lake.storage import Location, storage_of
from penstock.pipeline.lake.upkeep import LakeUpkeep
from penstock.pipeline.progress import PipelineSeries
from penstock.pipeline.query import Job, Running, begin
from penstock.pipeline.reader import PipelineReader
from penstock.pipeline.replay import rebuild_tables
from penstock.pipeline.session import session
from penstock.pipeline.settings import PipelineSettings
from penstock.pipeline.source.opening import open_view
from penstock.pipeline.writeback import WriteTarget
from penstock.signals import on_signal

from .listeners import refuse_open, running
from .options import opened
from .pipeline_following import PipelineCourse
from .pipeline_options import JobFlags
from .pipeline_reset import describe_reset
from .service import send_spans


def run_pipeline(flags: JobFlags, declared: Pipeline | None = None) -> None:
    """Start Spark and the query, print its progress, and stop it cleanly on a signal."""
    if declared is None:
        _tell_unfilled(flags)
    else:
        check_place(declared, flags.to)
    conf = spark_conf(flags.conf)
    if flags.ui:
        conf = {"spark.ui.enabled": "true"} | conf
        if is_local(flags.master or PipelineSettings.load().master):  # then it is served on this machine only
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if flags.http is not None:
        refuse_open("--http", flags.http, insecure=flags.insecure)
        if is_kafka(flags.url):
            raise click.UsageError("--http serves the metrics of a store; a Kafka cluster has its own")
    send_spans()
    job = job_of(flags, None if declared is None else declared.topic)
    for sentence in describe_reset(finish_reset(job.to)):
        click.echo(f"completed an interrupted reset: {sentence}", err=True)
    with closing(PipelineReader(job)) as reader:
        reader.check()
        check_format(job)
        reader.begin()  # errors at the start are not retried, and are reported before Spark is up
        click.echo(f"starting Spark; {job.topic} goes to {job.to}, read as {reader.name}", err=True)
        try:
            title = "lake" if declared is None else declared.name
            with _serving(flags), session(f"penstock {title}", master=flags.master, conf=conf) as spark:
                if flags.ui:
                    click.echo(f"Spark's pages are at {spark.sparkContext.uiWebUrl}", err=True)
                _run(spark, job, declared, reader)
        except BaseException:
            reader.withdraw()
            raise


def _run(spark: Any, job: Job, declared: Pipeline | None, reader: PipelineReader) -> None:
    def start() -> Running:
        reader.begin()
        for name in rebuild_tables(spark, job, lambda text: click.echo(text, err=True)):
            click.echo(f"rebuilt table {name} from the log", err=True)
        running = begin(spark, job, declared)
        reader.stays()
        return running

    upkeep = LakeUpkeep(job.to)
    with stop_requested() as requested:
        upkeep.start()
        try:
            series = PipelineSeries(short_name(job.url), reader.name)
            click.echo(str(PipelineCourse(requested, series, reader).run(start)))
        finally:
            upkeep.stop()
        if job.once:
            upkeep.look()  # a run by cron is too short for the upkeep thread


def _tell_unfilled(flags: JobFlags) -> None:
    """Check the form of a lake before Spark starts, and name columns of its tables that will be NULL."""
    typed = check_lake(_mode(flags, ()), flags.partition_by)
    if typed:
        with suppress(Error):  # problems of the tables are reported when they are written
            for sentence in typed.unfilled(flags.to):
                click.echo(sentence, err=True)


def check_place(declared: Pipeline, to: Location) -> None:
    """Refuse a bucket for a pipeline without tables: with a new checkpoint it would start over."""
    if (declared.topic is not None or declared.writes_itself) and not storage_of(to).keeps_checkpoints:
        raise click.UsageError(
            f"{declared.name} has no tables to resume from, so only its checkpoint holds its place: "
            "name a folder on a disk with --to"
        )


def job_of(flags: JobFlags, topic: str | None = None) -> Job:
    """Return the job of the options; reports its errors before Spark is up. `topic`: the target topic of its rows."""
    check_reach(flags.url, flags.master or PipelineSettings.load().master)
    kept_at = _kept_at(flags)
    counts = _checked_counts(flags)
    url, names = _absolute(flags.url), Names(flags.prefix, flags.schema)
    if topic is not None:
        WriteTarget(url, names, topic).check()
    if flags.format != ICEBERG and (flags.catalog or flags.namespace):
        raise click.UsageError("--catalog and --namespace are for --format iceberg")
    if flags.format == ICEBERG:
        check_catalog(flags.to, flags.catalog)
    same = {each.name: getattr(flags, each.name) for each in fields(Job) if hasattr(flags, each.name)}
    same |= {"url": url, "names": names, "mode": _mode(flags, counts), "kept_at": kept_at}
    return Job(**same, fail_on_loss=not flags.allow_loss)


def check_format(job: Job) -> None:
    """Refuse a folder of tables of the other format."""
    if job.format == ICEBERG:
        begin_iceberg(job.to, job.catalog, job.namespace)
    else:
        check_delta(job.to)


def _kept_at(flags: JobFlags) -> Path | None:
    inside, found = storage_of(flags.to).keeps_checkpoints, flags.checkpoint
    if inside and found is not None:
        raise click.UsageError("--checkpoint is for a lake in an object store: a folder keeps its own")
    if not inside and found is None:
        raise click.UsageError(
            "Missing option '--checkpoint': an object store cannot keep Spark's checkpoint; name a folder "
            "on a disk that is still there when the pipeline restarts"
        )
    return None if found is None else Path(found)


def _checked_counts(flags: JobFlags) -> tuple[int, ...]:
    """Check the store first, with the error messages of commands.

    Return the topic's former and current partition counts, if the mode needs them. Raises UnknownTopic.
    """
    if is_kafka(flags.url):
        with closing(open_view(flags.url, Names(), flags.topic)) as view:
            return (view.heads().topic.partitions,)
    with opened(flags.url, flags.prefix, flags.schema) as store:
        topic = store.log.topic(flags.topic)
        if flags.mode == APPEND:
            return ()
        return (*(len(each.ends) for each in store.log.growths(topic)), topic.partitions)


def _mode(flags: JobFlags, counts: tuple[int, ...]) -> Mode:
    key = tuple(name.strip() for name in (flags.key or "").split(",") if name.strip())
    if key and flags.mode == APPEND:
        raise click.UsageError("--key is for --mode upsert")
    if flags.mode != APPEND and flags.partition_by:
        raise click.UsageError("--partition-by is for --mode append; tables of upserts are partitioned by key")
    return Mode(flags.mode, flags.types, key, counts)


@contextmanager
def _serving(flags: JobFlags) -> Iterator[None]:
    address = flags.http
    if address is None:
        yield
        return
    from penstock.app import Outbox
    from penstock.gateway.application import application
    from penstock.gateway.listener import HttpListener

    outbox = Outbox(flags.url, prefix=flags.prefix, schema=flags.schema)
    with closing(outbox), running("http", HttpListener(application([outbox], worker=False), *address), err=True):
        yield


@contextmanager
def stop_requested() -> Iterator[Event]:
    """Yield an event that SIGTERM and SIGINT set; a second signal has its default effect."""
    requested = Event()
    with on_signal(lambda _: requested.set(), once=True):
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


def spark_conf(given: tuple[str, ...]) -> dict[str, str]:
    """Return the given Spark settings."""
    pairs = [each.partition("=") for each in given]
    for name, found, _ in pairs:
        if not name or not found:
            raise click.BadParameter(f"{name!r} must be KEY=VALUE", param_hint="--conf")
    return {name: value for name, _, value in pairs}
