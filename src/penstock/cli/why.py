"""`penstock why` and `lanes`: why something waits, and when that will change."""

from typing import Any

import click

from penstock.log.store import Store
from penstock.operate.lanes import LaneState, WaitingLane, lanes
from penstock.operate.why import Answer, Code, QuestionKind, why

from .exit_codes import FAILED
from .options import store_command
from .output import line, moment, print_json, print_page, whole

_COLUMNS = ("group", "topic", "partition", "key", "state", "failures", "waiting", "reason")

_A = {QuestionKind.ID: "an id", QuestionKind.KEY: "a key", QuestionKind.GROUP: "a group"}


@store_command("why")
@click.argument("subject", metavar="KEY|ID|GROUP")
@click.option(
    "--as",
    "kind",
    type=click.Choice([each.value for each in QuestionKind]),
    help="The kind of the subject, if it is ambiguous.",
)
@click.option("--group", help="Only this group.")
@click.option("--topic", help="Only this topic.")
@click.option("--key", help="The key of the record, to search for the id only in its partition.")
@click.option("--scan", is_flag=True, help="Search the whole log for it.")
def why_command(subject: str, store: Store, kind: str | None, scan: bool, as_json: bool, **narrow: Any) -> None:
    """Explain why a key, a record or a group has not been delivered.

    Prints one sentence per group concerned, with the time when that will change or the command that changes
    it. A subject that looks like a record's id is taken as one if it is found, then as a group's name, then
    as a key. Exits with 1 if nothing of that name is found.
    """
    asked = None if kind is None else QuestionKind(kind)
    found = why(store, subject, kind=asked, everything=scan, **narrow)
    if as_json:
        print_json({"answers": whole(found)})
    else:
        if kind is None:
            click.echo(line(f"{subject} is taken as {_A[found[0].kind]}; use --as to choose another kind"), err=True)
        for each in found:
            print_answer(each)
    unknown = all(each.code is Code.UNKNOWN for each in found)
    click.get_current_context().exit(FAILED if unknown else 0)


def print_answer(answer: Answer, *, with_group: bool = False) -> None:
    """Print an answer: its sentence, what else holds, and the commands that change it."""
    group = f"{answer.group}: " if with_group and answer.group is not None else ""
    click.echo(line(f"{group}{answer.sentence}"))
    for each in answer.also:
        click.echo(f"  also: {line(each)}")
    for each in answer.commands:
        click.echo(f"  $ {line(each)}")


@store_command("lanes", paged=True)
@click.option("--group", help="Only this group.")
@click.option("--topic", help="Only this topic.")
@click.option("--key", help="Only this key.")
@click.option("--held", is_flag=True, help="Only those that wait for a person.")
def lanes_command(store: Store, held: bool, as_json: bool, **filters: Any) -> None:
    """List the waiting keys, and why they wait.

    held: a person must requeue or discard a dead letter (penstock dead). parked: until its retry. due: it is
    tried as soon as a worker has room. slow: its handler is busy. moved: earlier records of the key wait in
    the partition it was in before the topic grew. A late key has records that its group passed over before it
    had a handler for them. If a group works in the order of partitions, a whole partition waits.
    """
    found = lanes(store, held=held or None, **filters)
    print_page("lanes", found, _COLUMNS, _row, none="no lanes wait", as_json=as_json, prose=("reason",))


def _row(each: WaitingLane) -> tuple[object, ...]:
    key = "(the whole partition)" if each.whole else each.key
    key = key if each.alone is None else f"{key} (offset {each.alone} alone)"
    key = f"{key} (late)" if each.late else key
    state = each.state.value if each.until is None else f"{each.state.value} until {moment(each.until)}"
    reason = "" if each.state is LaneState.SLOW else each.reason
    return each.group, each.topic, each.partition, key, state, each.failures, each.waiting, reason
