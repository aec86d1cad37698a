"""`penstock lanes`: the waiting keys, and why they wait."""

import click

from penstock.operate.lanes import LaneState, WaitingLane, lanes

from .options import after_option, json_option, limit_option, opened, store_options
from .output import cell, moment, print_page

_COLUMNS = ("group", "topic", "partition", "key", "state", "failures", "waiting", "reason")


@click.command("lanes")
@store_options
@click.option("--group", help="Only this group.")
@click.option("--topic", help="Only this topic.")
@click.option("--key", help="Only this key.")
@click.option("--held", is_flag=True, help="Only those that wait for a person.")
@limit_option
@after_option
@json_option
def command(
    url: str,
    prefix: str,
    schema: str | None,
    group: str | None,
    topic: str | None,
    key: str | None,
    held: bool,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List the waiting keys, and why they wait.

    held: a person must requeue or discard a dead letter (penstock dead). parked: until its retry. due: it is
    tried as soon as a worker has room. slow: its handler is busy. moved: earlier records of the key wait in
    the partition it was in before the topic grew. A late key has records that its group passed over before it
    had a handler for them. If a group works in the order of partitions, a whole partition waits.
    """
    with opened(url, prefix, schema) as store:
        found = lanes(
            store,
            group=group,
            topic=topic,
            key=key,
            held=True if held else None,
            limit=limit,
            after=after,
        )
    print_page("lanes", found, _COLUMNS, _row, none="no lanes wait", as_json=as_json, prose=("reason",))


def _row(each: WaitingLane) -> tuple[str, ...]:
    key = "(the whole partition)" if each.whole else each.key
    key = key if each.alone is None else f"{key} (offset {each.alone} alone)"
    key = f"{key} (late)" if each.late else key
    state = each.state.value if each.until is None else f"{each.state.value} until {moment(each.until)}"
    reason = "" if each.state is LaneState.SLOW else each.reason
    failures, waiting = str(each.failures), str(each.waiting)
    texts = each.group, each.topic, str(each.partition), key, state, failures, waiting, reason
    return tuple(map(cell, texts))
