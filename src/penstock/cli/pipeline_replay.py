"""`penstock pipeline replay`: a range of a topic once more, into a folder of its own."""

from typing import Any

import click

from .options import json_option
from .pipeline_options import replay_options, to_option, types_option

_PLACE = "earliest|latest|OFFSET|MOMENT|2h|JSON"


@click.command("replay")
@click.argument("pipeline", required=False, metavar="[MODULE:FUNCTION]")
@click.option(
    "--from", "first", default="earliest", show_default=True, metavar=_PLACE, help="Where to begin."
)
@click.option(
    "--until", "last", default="latest", show_default=True, metavar=_PLACE, help="Where to end, before that."
)
@to_option(
    required=True,
    help="A new folder for what it makes, or s3://BUCKET/FOLDER; a folder also keeps its checkpoint.",
)
@click.option("--to-topic", help="For a pipeline into a topic: the other topic that its rows go to.")
@types_option
@replay_options
@click.option("--dry-run", is_flag=True, help="Run nothing; show the ranges and how many offsets they span.")
@click.option("--yes", is_flag=True, help="Do not ask before a pipeline runs that writes by itself.")
@json_option
@click.pass_context
def replay_range(ctx: click.Context, /, pipeline: str | None, **given: Any) -> None:
    """Run a range of a topic again, through your pipeline or into a lake, beside the live one.

    Without MODULE:FUNCTION the range goes into tables, one for each event type. Nothing that a live pipeline
    has is touched: its folder, checkpoint, place and topic stay as they are. A replay that was cut short goes
    on when the same command is given again. An OFFSET is one of every partition; what stands at --until, or
    after it, is not replayed. Retention does not wait for a replay.
    """
    from .replay_course import run_replay

    run_replay(ctx, pipeline, given)
