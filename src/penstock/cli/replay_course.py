"""The course of a replay: which range, whether it may go where it is to go, and Spark."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from penstock.clock import to_ms
from penstock.log.sql.address import short_name
from penstock.pipeline.declared import Pipeline
from penstock.pipeline.lake_state import Replayed
from penstock.pipeline.modes import check_lake
from penstock.pipeline.offsets import Range
from penstock.pipeline.options import EARLIEST, LATEST, ReadingPlace, read_offsets
from penstock.pipeline.paths import table_path
from penstock.pipeline.query import Job, start_function, start_lake
from penstock.pipeline.replaying import ReplayedRange, ReplayPlace, begun, planned, replaying
from penstock.pipeline.series import PipelineSeries
from penstock.pipeline.session import session

from .asking import confirm
from .output import print_json
from .pipeline_course import (
    PipelineStart,
    asked_to_stop,
    check_format,
    check_place,
    job_of,
    spark_conf,
    starting,
)
from .pipeline_following import CourseEnd, PipelineCourse
from .pipeline_target import declare, function_at, registered
from .tables import print_table
from .units import past_moment

_LAKE = "lake"
_OF_NO_REPLAY = {"starting": EARLIEST, "once": True, "small_batch_seconds": None}


@dataclass(frozen=True, slots=True)
class _ReplayedPiece:
    partition: int
    start: int
    end: int
    records: int


def run_replay(ctx: click.Context, target: str | None, given: dict[str, Any]) -> None:
    """Say which range it is; run it, unless that is all that was asked for."""
    found = None if target is None else function_at(target)
    if found is not None and given["types"] is not None:
        raise click.UsageError("--types is for a replay without a function of your own")
    given |= _OF_NO_REPLAY | {"types": None if given["types"] is None else registered(given["types"])}
    if isinstance(found, Pipeline):
        declare(ctx, found, given)
        found = _redirected(found, given)
        check_place(found, given["to"])
    elif given["to_topic"] is not None:
        raise click.UsageError(
            "--to-topic is for a pipeline that @pipeline declares with a topic as its sink"
        )
    start, conf = _start(target, found), spark_conf(given["conf"])
    job = job_of(given, given["to_topic"])
    if found is None:
        check_lake(job.mode, job.partition_by)
    words = given["first"], given["last"]
    first, last = _place("--from", words[0], job.topic), _place("--until", words[1], job.topic)
    range_ = planned(job, first, last, words)
    asked = Replayed(target or _LAKE, words, range_.to_json())
    batch = begun(job.to, asked)
    pieces = [_ReplayedPiece(*each, each.end - each.start) for each in batch.pieces()]
    if not given["as_json"]:
        _print(job.topic, batch, pieces)
    ended = None
    if pieces and not given["dry_run"]:
        if isinstance(found, Pipeline) and found.writes_itself and not given["yes"]:
            question = f"{found.name} writes by itself, and gets these records again. Go on?"
            confirm(question, as_json=given["as_json"])
        ended = _run(start, replaying(job, asked, batch), batch, given["master"], conf)
    if given["as_json"]:
        told: dict[str, Any] = {"pipeline": asked.pipeline, "topic": job.topic, "to": str(job.to)}
        told |= {"records": batch.count(), "ranges": pieces, "dry_run": given["dry_run"]}
        print_json(told | ({} if ended is None else asdict(ended)))
    elif ended is not None:
        click.echo(str(ended))


def _run(start: PipelineStart, job: Job, batch: Range, master: str | None, conf: dict[str, str]) -> CourseEnd:
    check_format(job)
    click.echo(f"starting Spark; {job.topic} goes to {job.to}", err=True)
    name = f"replay {job.to.name}"
    with session(f"penstock {name}", master=master, conf=conf) as spark, asked_to_stop() as asked:
        course = PipelineCourse(asked, PipelineSeries(short_name(job.url), name), ReplayedRange(batch))
        return course.run(lambda: start(spark, job))


def _start(target: str | None, found: Callable[..., Any] | None) -> PipelineStart:
    if target is None or found is None:
        return start_lake
    if isinstance(found, Pipeline):
        return starting(found)
    return lambda spark, job: start_function(spark, job, target, found)


def _redirected(declared: Pipeline, given: dict[str, Any]) -> Pipeline:
    """Return a declared pipeline that writes somewhere else than the live one."""
    topic: str | None = given["to_topic"]
    if declared.folder is not None and table_path("sink", declared.folder) == given["to"]:
        raise click.UsageError(f"{given['to']} is the folder of the live pipeline: name another by --to")
    if declared.topic is None:
        if topic is not None:
            raise click.UsageError(f"--to-topic is for a pipeline into a topic, and {declared.name} is none")
        return declared
    if topic is None:
        raise click.UsageError(
            f"{declared.name} writes to topic {declared.topic}: name another one for the replay by --to-topic"
        )
    if topic in (declared.topic, given["topic"]):
        which = "the live pipeline writes to" if topic == declared.topic else "is replayed"
        raise click.UsageError(f"--to-topic {topic} is the topic that {which}: name another one")
    return replace(declared, topic=topic)


def _place(option: str, text: str, topic: str) -> ReplayPlace:
    """Return the place that a text means."""
    if text in (EARLIEST, LATEST):
        return ReadingPlace(text)
    if text.isascii() and text.isdecimal():
        return int(text)
    if text.startswith("{"):
        default = EARLIEST if option == "--from" else LATEST
        return ReadingPlace(default, offsets=read_offsets(option, text, (topic,)).get(topic))
    try:
        return ReadingPlace(timestamp_ms=to_ms(past_moment(text)))
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is neither {EARLIEST} nor {LATEST}, no offset, no duration back such as 2h, no moment "
            f'such as 2026-11-16T02:00, and no offsets such as {{"{topic}": {{"0": 12}}}}',
            param_hint=option,
        ) from None


def _print(topic: str, batch: Range, pieces: list[_ReplayedPiece]) -> None:
    if pieces:
        rows = [
            tuple(f"{number:,}" for number in (each.partition, each.start, each.end, each.records))
            for each in pieces
        ]
        print_table(("partition", "from", "to before", "records"), rows)
    click.echo(f"{batch.count():,} records of topic {topic} to replay")
