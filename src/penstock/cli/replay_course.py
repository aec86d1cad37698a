"""The run of a replay: its range, the checks of its target, and Spark."""

from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import click

from penstock.clock import to_ms
from penstock.database.address import short_name
from penstock.pipeline.declared import Pipeline
from penstock.pipeline.lake.modes import check_lake
from penstock.pipeline.lake.paths import table_path
from penstock.pipeline.lake.state import Replayed
from penstock.pipeline.offsets import Range
from penstock.pipeline.progress import PipelineSeries
from penstock.pipeline.query import Job, begin
from penstock.pipeline.replay import ReplayedRange, ReplayPlace, begun, planned, replaying
from penstock.pipeline.session import session
from penstock.pipeline.source.options import EARLIEST, LATEST, ReadingPlace, read_offsets

from .output import confirm, print_json, print_table
from .pipeline_course import check_format, check_place, job_of, spark_conf, stop_requested
from .pipeline_following import CourseEnd, PipelineCourse
from .pipeline_options import ReplayFlags
from .units import topic_place

_LAKE = "lake"


def run_replay(target: str | None, found: Pipeline | None, flags: ReplayFlags) -> None:
    """Print the range of a replay, and run it unless it is a dry run."""
    if found is not None and found.target is None:
        found = _redirected(found, flags)
        check_place(found, flags.to)
    elif flags.to_topic is not None:
        raise click.UsageError("--to-topic is for a pipeline that @pipeline declares with a topic as its sink")
    conf, job = spark_conf(flags.conf), job_of(flags, flags.to_topic)
    if found is None:
        check_lake(job.mode, job.partition_by)
    words = flags.first, flags.last
    first, last = _place("--from", words[0], job.topic), _place("--until", words[1], job.topic)
    range_ = planned(job, first, last, words)
    replayed = Replayed(target or _LAKE, words, range_.to_json())
    batch = begun(job.to, replayed)
    pieces = [each._asdict() | {"records": each.end - each.start} for each in batch.pieces()]
    if not flags.as_json:
        if pieces:
            rows = [[f"{number:,}" for number in each.values()] for each in pieces]
            print_table(("partition", "from", "to before", "records"), rows)
        click.echo(f"{batch.count():,} records of topic {job.topic} to replay")
    ended = None
    if pieces and not flags.dry_run:
        if found is not None and found.writes_itself and not flags.yes:
            question = f"{found.name} writes its own output, and gets these records again. Continue?"
            confirm(question, as_json=flags.as_json)
        ended = _run(found, replaying(job, replayed, batch), batch, flags.master, conf)
    if flags.as_json:
        document: dict[str, Any] = {"pipeline": replayed.pipeline, "topic": job.topic, "to": str(job.to)}
        document |= {"records": batch.count(), "ranges": pieces, "dry_run": flags.dry_run}
        print_json(document | ({} if ended is None else asdict(ended)))
    elif ended is not None:
        click.echo(str(ended))


def _run(declared: Pipeline | None, job: Job, batch: Range, master: str | None, conf: dict[str, str]) -> CourseEnd:
    check_format(job)
    click.echo(f"starting Spark; {job.topic} goes to {job.to}", err=True)
    name = f"replay {job.to.name}"
    with session(f"penstock {name}", master=master, conf=conf) as spark, stop_requested() as requested:
        course = PipelineCourse(requested, PipelineSeries(short_name(job.url), name), ReplayedRange(batch))
        return course.run(lambda: begin(spark, job, declared))


def _redirected(declared: Pipeline, flags: ReplayFlags) -> Pipeline:
    topic = flags.to_topic
    if declared.folder is not None and table_path("sink", declared.folder) == flags.to:
        raise click.UsageError(f"{flags.to} is the folder of the live pipeline: name another with --to")
    if declared.topic is None:
        if topic is not None:
            raise click.UsageError(f"--to-topic is for a pipeline into a topic; {declared.name} is not one")
        return declared
    if topic is None:
        raise click.UsageError(f"{declared.name} writes to topic {declared.topic}: name another one with --to-topic")
    if topic in (declared.topic, flags.topic):
        which = "that the live pipeline writes to" if topic == declared.topic else "to be replayed"
        raise click.UsageError(f"--to-topic {topic} is the topic {which}: name another one")
    return replace(declared, topic=topic)


def _place(option: str, text: str, topic: str) -> ReplayPlace:
    if text.startswith("{"):
        default = EARLIEST if option == "--from" else LATEST
        return ReadingPlace(default, offsets=read_offsets(option, text, (topic,)).get(topic))
    found = topic_place(text, option, also=f', or offsets such as {{"{topic}": {{"0": 12}}}}')
    if isinstance(found, datetime):
        return ReadingPlace(timestamp_ms=to_ms(found))
    return found if isinstance(found, int) else ReadingPlace(found)
