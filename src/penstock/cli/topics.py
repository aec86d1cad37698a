"""`penstock topics`: list, show, create, grow, set, clear, delete."""

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import click

from penstock.log.contract import OUTBOX_PARTITIONS
from penstock.log.store import Store
from penstock.model.retry import span_words
from penstock.operate import topics
from penstock.operate.clear import Cleared, clear
from penstock.operate.kafka_cluster import KafkaCluster, is_kafka
from penstock.operate.operation import Page
from penstock.operate.topics import UNLIMITED, TopicShown

from .options import ChosenStore, Decorator, json_option, page_options, store_command, store_options, yes_option
from .output import confirm, moment, print_facts, print_json, print_page, print_result, print_table, whole
from .units import count, duration, is_unlimited, size, size_text

_COLUMNS = ("topic", "partitions", "records", "kept", "groups")
_PARTITION_COLUMNS = ("partition", "start", "end", "records")


def _limit_option(read: Callable[[str], Any], *names: str, help: str) -> Decorator:
    def limit(text: str) -> Any:
        return UNLIMITED if is_unlimited(text) else read(text)

    return click.option(*names, type=limit, metavar="TEXT", help=help)


@click.group("topics")
def command() -> None:
    """List, show, create, grow, set, clear or delete topics."""


@command.command("list")
@store_options
@page_options
@json_option
def list_topics(chosen: ChosenStore, as_json: bool, **paged: Any) -> None:
    """List topics by name: partitions, records, retention, and the groups that read them.

    For a Kafka cluster (kafka://host:port): all topics with their partitions.
    """
    if is_kafka(chosen.url):
        with KafkaCluster(chosen.url) as cluster:
            known = cluster.topics()
        print_page("topics", Page(known, None), ("topic", "partitions"), astuple, none="no topics", as_json=as_json)
        return
    with chosen.opened() as store:
        found = topics.topics(store, **paged)
    print_page("topics", found, _COLUMNS, _row, none="no topics", as_json=as_json)


@store_command("show", command, paged=True)
@click.argument("name")
@click.option("--partitions", "with_partitions", is_flag=True, help="List its partitions, too.")
@click.option("--size", "with_size", is_flag=True, help="Measure its bytes, too; reads all of it.")
def show_topic(name: str, store: Store, with_partitions: bool, with_size: bool, as_json: bool, **paged: Any) -> None:
    """Show a topic; with --partitions also the bounds of each."""
    topic = topics.show(store, name)
    total = topics.size_bytes(store, name) if with_size else None
    found = topics.partitions(store, name, **paged) if with_partitions else None
    if as_json:
        shown = whole(topic) | ({} if total is None else {"bytes": total})
        if found is not None:
            shown |= {"partition_list": whole(found.items), "after": found.after}
        print_json(shown)
        return
    facts = {
        "topic": topic.name,
        "partitions": str(topic.partitions),
        "records": str(topic.records),
        "kept": _kept(topic),
        "groups": ", ".join(topic.groups) or "none",
        "created": moment(topic.created_at),
    } | ({} if total is None else {"size": size_text(total)})
    print_facts(facts)
    if found is not None:
        rows = [(each.partition, each.start, each.end, each.end - each.start) for each in found.items]
        print_table(_PARTITION_COLUMNS, rows, after=found.after)


@store_command("create", command)
@click.argument("name")
@click.option(
    "--partitions",
    type=int,
    default=OUTBOX_PARTITIONS,
    show_default=True,
    help="How many; `topics grow` adds more later.",
)
def create_topic(name: str, store: Store, partitions: int, as_json: bool) -> None:
    """Create a topic; an existing one with the same number of partitions is not changed."""
    made = topics.create(store, name, partitions=partitions)
    print_result(
        {"topic": name, "created": made}, f"topic {name} {'created' if made else 'exists already'}", as_json=as_json
    )


@store_command("grow", command)
@click.argument("name")
@click.option("--partitions", type=int, required=True, help="The new number: a multiple of the current one.")
def grow_topic(name: str, store: Store, partitions: int, as_json: bool) -> None:
    """Give a topic more partitions; safe beside publishers and workers.

    Every key keeps its order: a new partition is delivered once the earlier records in the old one are. It
    first waits for a heartbeat of the workers: those of a release that cannot grow topics stop with it.
    """
    before = topics.show(store, name).partitions
    topic = topics.grow(store, name, partitions)
    print_result(
        whole(topic) | {"before": before},
        f"topic {name} has {topic.partitions} partitions, before {before}",
        as_json=as_json,
    )


@command.command("set")
@click.argument("name")
@store_options
@_limit_option(duration, "--retention", "age", help="Keep records this long: 30d, 12h, 0, or forever.")
@_limit_option(size, "--max-bytes", help="Keep at most this much of each partition: 10GB, 512MiB, or unlimited.")
@_limit_option(count, "--max-records", help="Keep at most this many records of each partition, or unlimited.")
@click.option("--default", is_flag=True, help="Keep what the settings specify.")
@click.option(
    "--compact/--no-compact",
    default=None,
    help="Keep the last record of each key (a log in files only); without --retention for ever.",
)
@click.option("--tombstones", default="1d", show_default=True, help="With --compact: how long tombstones are kept.")
@json_option
def set_topic(
    name: str, chosen: ChosenStore, default: bool, compact: bool | None, tombstones: str, as_json: bool, **limits: Any
) -> None:
    """Set the retention of a topic.

    Limits that are not given stay as they are. Records that a group has not read yet are never deleted; a
    retention of 0 keeps only those.
    """
    given = {limit: value for limit, value in limits.items() if value is not None}
    if not default and compact is None and not given:
        raise click.UsageError("give --retention, --max-bytes, --max-records, --compact, or --default")
    tombstone_age = duration(tombstones)
    if compact and not default:
        given.setdefault("age", UNLIMITED)
    with chosen.opened() as store:
        if compact is not None:
            topics.set_compaction(store, name, tombstone_age if compact else None)
        if default or given:
            topic = topics.set_retention(store, name, **given, default=default)
        else:
            topic = topics.show(store, name)
    compacted = "" if compact is None else ", compacted" if compact else ", not compacted"
    print_result(whole(topic), f"topic {name} keeps: {_kept(topic)}{compacted}", as_json=as_json)


@store_command("clear", command)
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Change nothing; show how many it would be.")
@yes_option
def clear_topic(name: str, store: Store, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Empty a topic: delete its staged, scheduled, logged, waiting and dead events.

    The topic and its groups stay, and offsets continue where they ended. Safe beside publishers and workers.
    """
    if not (dry_run or yes):
        plan = clear(store, name, dry_run=True)
        confirm(f"topic {name}: {_lost(plan)}. Delete all of it?", as_json=as_json)
    done = clear(store, name, dry_run=dry_run)
    print_result(done, f"topic {name}: {_lost(done)} {'would be' if dry_run else 'are'} deleted", as_json=as_json)


@store_command("delete", command)
@click.argument("name")
@click.option("--force", is_flag=True, help="Delete it even while members serve it.")
@yes_option
def delete_topic(name: str, store: Store, force: bool, yes: bool, as_json: bool) -> None:
    """Delete a topic with its records and every group's cursors on it.

    Refused while members serve it. Events staged or scheduled for it would create it again: clear it first.
    """
    topic = topics.show(store, name)
    if not yes:
        readers = ", ".join(topic.groups) or "no group"
        question = f"topic {name} has {topic.records} records and is read by {readers}. Delete it?"
        confirm(question, as_json=as_json)
    gone = topics.delete(store, name, force=force)
    print_result({"topic": name, "records": gone}, f"topic {name} deleted, with {gone} records", as_json=as_json)


def _kept(topic: TopicShown) -> str:
    """Return the retention of a topic in words, without the limits that come from the settings."""
    limits: tuple[tuple[int | None, Callable[[int], str]], ...] = (
        (topic.retention_ms, lambda ms: span_words(ms) if ms else "until every group has passed it"),
        (topic.retention_bytes, lambda most: f"{size_text(most)} a partition"),
        (topic.retention_records, lambda most: f"{most} records a partition"),
    )
    given = [(limit, text) for limit, text in limits if limit is not None]
    return (
        ", ".join("unlimited" if limit == UNLIMITED else text(limit) for limit, text in given) or "as in the settings"
    )


def _lost(cleared: Cleared) -> str:
    return (
        f"{cleared.records} records, {cleared.staged} staged, {cleared.scheduled} scheduled, "
        f"{cleared.lanes} waiting lanes, {cleared.dead} dead letters"
    )


def _row(each: TopicShown) -> tuple[object, ...]:
    return each.name, each.partitions, each.records, _kept(each), ", ".join(each.groups) or "none"
