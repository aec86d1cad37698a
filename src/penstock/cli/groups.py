"""`penstock groups`: list, show, pause, resume, reset, catch-up, delete."""

from dataclasses import astuple
from datetime import datetime
from operator import attrgetter
from typing import Any

import click

from penstock.log.store import Store
from penstock.membership.filters import wanted
from penstock.operate import groups
from penstock.operate.catch_up import PassedOverType, catch_up
from penstock.operate.kafka_cluster import KafkaCluster, is_kafka
from penstock.operate.operation import Page
from penstock.operate.progress import KIND, Group
from penstock.operate.reset import Reset, reset

from .options import ChosenStore, json_option, page_options, past_option, store_command, store_options, yes_option
from .output import confirm, line, moment, print_facts, print_json, print_page, print_result, print_table, whole
from .units import topic_place

_COLUMNS = ("group", "topics", "lag", "oldest unread", "waiting", "held", "dead", "members", "state")
_TOPIC_COLUMNS = ("topic", "partitions", "lag", "oldest unread", "waiting", "held", "dead")
_CURSOR_COLUMNS = ("topic", "partition", "offset", "end", "lag", "done above", "owner", "epoch", "crashes")
_cursor_row = attrgetter("topic", "partition", "offset", "end", "lag", "passed", "owner", "epoch", "crashes")
_PASSED_COLUMNS = ("passed over", "topic", "about", "first", "state")
_MOVE_COLUMNS = ("partition", "from", "to", "again", "skipped")


@click.group("groups")
def command() -> None:
    """List, show, pause, resume, reset, catch up or delete groups."""


@command.command("list")
@store_options
@page_options
@json_option
def list_groups(chosen: ChosenStore, as_json: bool, **paged: Any) -> None:
    """List groups by name: their lag, and their waiting keys.

    lag: records they have not passed. waiting: keys that wait for a retry or their turn. held: keys that wait
    for a person. For a Kafka cluster (kafka://host:port): all groups by name and kind.
    """
    if is_kafka(chosen.url):
        with KafkaCluster(chosen.url) as cluster:
            known = cluster.groups()
        print_page("groups", Page(known, None), ("group", "kind"), astuple, none="no groups", as_json=as_json)
        return
    with chosen.opened() as store:
        found = groups.groups(store, **paged)
    print_page("groups", found, _COLUMNS, _row, none="no groups", as_json=as_json)


@store_command("show", command, paged=True)
@click.argument("name")
@click.option("--partitions", "with_partitions", is_flag=True, help="List its cursors, too.")
@click.option("--topic", help="Only the cursors on this topic.")
def show_group(name: str, store: Store, with_partitions: bool, topic: str | None, as_json: bool, **paged: Any) -> None:
    """Show a group: its topics, filter and members, and the types it has passed over.

    With --partitions, also its cursor in each.
    """
    shown = groups.show(store, name)
    found = groups.partitions(store, name, topic=topic, **paged) if with_partitions else None
    if as_json:
        document = whole(shown.group) | whole(shown)
        del document["group"]
        if found is not None:
            document |= {"partitions": whole(found.items), "after": found.after}
        print_json(document)
        return
    members = [f"{each} (stopping)" if each in shown.stopping_ids else each for each in shown.member_ids]
    facts = {
        "group": shown.group.name,
        "state": _state(shown.group),
        "created": "" if shown.created_at is None else moment(shown.created_at),
        "filter": " ".join(shown.filter) or "none stored",
        "version": shown.group.filter_version,
        "members": ", ".join(members) or "none",
    }
    print_facts(facts)
    print_table(_TOPIC_COLUMNS, map(astuple, shown.on_topics))
    if shown.passed_over:
        print_table(_PASSED_COLUMNS, [_passed_row(each, shown.filter) for each in shown.passed_over])
    if found is not None:
        print_table(_CURSOR_COLUMNS, map(_cursor_row, found.items), after=found.after)


@store_command("pause", command)
@click.argument("name")
def pause_group(name: str, store: Store, as_json: bool) -> None:
    """Stop delivery to a group until it is resumed.

    Workers finish running calls and release its partitions within a second or so. Its records are kept.
    """
    _say(name, groups.pause(store, name), as_json, ("is paused", "was paused already"))


@store_command("resume", command)
@click.argument("name")
def resume_group(name: str, store: Store, as_json: bool) -> None:
    """Resume a paused group where it stopped."""
    _say(name, groups.resume(store, name), as_json, ("is resumed", "was not paused"))


@command.command("reset")
@click.argument("name")
@store_options
@click.option("--topic", help="The topic on which it is reset; optional if the group reads only one.")
@click.option("--to", "place", required=True, metavar="earliest|latest|OFFSET|MOMENT|2h", help="The new place.")
@click.option("--partition", type=int, help="Only this partition; needed for an OFFSET.")
@click.option("--drop-parked", is_flag=True, help="Also drop the records that wait in lanes before that place.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show how many records would come again or be skipped.")
@yes_option
@json_option
def reset_group(
    name: str, chosen: ChosenStore, topic: str | None, place: str, dry_run: bool, yes: bool, as_json: bool, **given: Any
) -> None:
    """Move a group to another place in a topic: back, to receive records again, or forward, to skip some.

    Safe while workers run; each key stays in order. A MOMENT looks like 2026-11-16T02:00 (UTC, or with a
    zone): the first record at or after it. Records that wait in lanes before the new place stay, unless
    dropped; dead letters stay, and are marked.
    """
    given["to"] = to = topic_place(place, "--to")
    if isinstance(to, int) and given["partition"] is None:
        raise click.UsageError(f"offset {to} needs --partition")
    with chosen.opened() as store:
        given["topic"] = topic or _only_topic(store, name)
        if not (dry_run or yes):
            plan = reset(store, name, **given, dry_run=True)
            if not as_json:
                _print_moves(plan)
            confirm(f"{_summary(plan, dry_run=True)}. Reset group {name}?", as_json=as_json)
        done = reset(store, name, **given, dry_run=dry_run)
    if as_json:
        print_json(whole(done) | {"again": done.again, "skipped": done.skipped, "dry_run": dry_run})
        return
    if dry_run or yes:
        _print_moves(done)
    click.echo(_summary(done, dry_run=dry_run))


def _only_topic(store: Store, name: str) -> str:
    topics = [each.topic for each in groups.show(store, name).on_topics]
    if len(topics) != 1:
        known = ", ".join(topics) or "no topic yet"
        raise click.UsageError(f"group {name} reads {known}: name the topic with --topic")
    return topics[0]


@store_command("catch-up", command)
@click.argument("name")
@click.option("--type", "type", help="Only this event type.")
@past_option("--since", "Only records published at or after this moment.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show how many it would be.")
def catch_up_group(
    name: str, store: Store, type: str | None, since: datetime | None, dry_run: bool, as_json: bool
) -> None:
    """Deliver late the records that a group passed over for lack of a handler, however old they are.

    Workers start within a second or so, beside new records. Handlers see that a record is late (record.late);
    it is not ordered against records that were settled already. The setting processing.catch_up controls what
    a new handler gets without this command.
    """
    done = catch_up(store, name, type=type, since=since, dry_run=dry_run)
    verb = "would come" if dry_run else "come"
    types = f" ({', '.join(each or 'without a type' for each in done.types)})" if done.types else ""
    text = line(f"about {done.records} records{types} {verb} late, from {done.partitions} partitions")
    print_result(whole(done) | {"dry_run": dry_run}, text, as_json=as_json)


@store_command("delete", command)
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would be deleted.")
@yes_option
def delete_group(name: str, store: Store, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete a group: its cursors, waiting lanes and dead letters.

    Refused while members serve it. The log stays; a new group of that name starts afresh.
    """
    if not (dry_run or yes):
        plan = groups.delete(store, name, dry_run=True)
        question = f"group {name} has {plan.lanes} waiting lanes and {plan.dead} dead letters. Delete it?"
        confirm(question, as_json=as_json)
    done = groups.delete(store, name, dry_run=dry_run)
    word = "would be deleted" if dry_run else "deleted"
    text = f"group {name} {word}: {done.cursors} cursors, {done.lanes} lanes, {done.dead} dead letters"
    print_result(done, text, as_json=as_json)


def _say(name: str, changed: bool, as_json: bool, words: tuple[str, str]) -> None:
    print_result({"group": name, "changed": changed}, f"group {name} {words[not changed]}", as_json=as_json)


def _print_moves(done: Reset) -> None:
    moved = [each for each in done.moves if each.again or each.skipped or each.from_offset != each.to_offset]
    if moved:
        print_table(_MOVE_COLUMNS, map(astuple, moved))


def _summary(done: Reset, *, dry_run: bool) -> str:
    verb = "would come" if dry_run else "come"
    other = "would be" if dry_run else "are"
    return f"{done.again} records {verb} again, {done.skipped} {other} skipped"


def _passed_row(each: PassedOverType, filter: tuple[str, ...]) -> tuple[object, ...]:
    handled = wanted([filter], each.topic, each.type) if filter else None
    state = "comes late" if each.coming else "no handler" if handled is False else "not requested"
    return each.type or "without a type", each.topic, each.records, each.first_at, state


def _state(group: Group) -> str:
    if group.kind == KIND:
        return "pipeline"
    return "flows" if group.paused_at is None else f"paused since {moment(group.paused_at)}"


def _row(each: Group) -> tuple[object, ...]:
    counts = each.waiting, each.held, each.dead, each.members
    return each.name, ", ".join(each.topics), each.lag, each.oldest_unread_at, *counts, _state(each)
