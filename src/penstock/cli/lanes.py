"""`penstock lanes`: the keys that wait, and for what."""

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
    """List the keys that wait, and for what.

    held: for a person to requeue or discard a dead letter (penstock dead). parked: for the time of a retry.
    due: it is tried as soon as a worker has room. slow: more came than its handler could do at once.
    moved: for what waits of it in the partition where it was before the topic grew. A late key waits with
    what its group had passed over before it had a handler for it. Where a group works in the order of
    partitions, a whole partition waits.
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
