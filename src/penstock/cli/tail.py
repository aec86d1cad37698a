"""`penstock tail`: prints the records of a topic, and new ones as they come."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from penstock.model.record import Record
from penstock.operate.kafka_cluster import KafkaCluster, is_kafka
from penstock.operate.tail import EARLIEST, LATEST, StartPlace, StoreTail, TopicTail

from .options import opened, store_options
from .output import json_line, line, moment
from .units import past_moment

_SHOWN_CHARACTERS = 200


def _start(ctx: click.Context, param: click.Parameter, text: str | None) -> StartPlace | None:
    if text is None or text in (EARLIEST, LATEST):
        return text
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        found: datetime = past_moment(text)
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is not {EARLIEST}, {LATEST}, an offset, a duration back such as 2h, or a "
            "moment such as 2026-11-16T02:00"
        ) from None
    return found


@click.command("tail")
@click.argument("topic")
@store_options
@click.option(
    "--from",
    "start",
    callback=_start,
    metavar="earliest|latest|OFFSET|MOMENT|2h",
    help="Where to begin; default: latest, or earliest with --no-follow.",
)
@click.option("--follow/--no-follow", default=True, help="Wait for more at the end, or stop there.")
@click.option("--partition", type=int, help="Only this partition.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document per line.")
def command(
    topic: str,
    url: str,
    prefix: str,
    schema: str | None,
    start: StartPlace | None,
    follow: bool,
    partition: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print the records of a topic, and new ones as they come, until it is stopped.

    Reads beside all other readers and moves no group. The store may also be a Kafka cluster:
    kafka://host:port. Within a partition records come in order; an OFFSET applies to every partition.
    """
    if start is None:
        start = LATEST if follow else EARLIEST
    left = limit
    with _tail(topic, url, prefix, schema, start, partition) as tail:
        while True:
            for record in tail.records():
                click.echo(json_line(_document(record)) if as_json else _text(record))
                left = None if left is None else left - 1
                if left == 0:
                    return
            if not follow:
                return
            tail.wait()


@contextmanager
def _tail(
    topic: str, url: str, prefix: str, schema: str | None, start: StartPlace, partition: int | None
) -> Iterator[TopicTail]:
    if not is_kafka(url):
        with opened(url, prefix, schema) as store:
            yield StoreTail(store, topic, start, partition=partition)
        return
    with KafkaCluster(url) as cluster:
        tail = cluster.tail(topic, start, partition=partition)
        try:
            yield tail
        finally:
            tail.close()


def _text(record: Record) -> str:
    """Return a record on one line: its place, time, key, type and value."""
    place = f"{record.topic}/{record.partition}/{record.offset}"
    data = record.data
    value = "(tombstone)" if data is None else data.decode("utf-8", "backslashreplace")
    if len(value) > _SHOWN_CHARACTERS:
        value = f"{value[:_SHOWN_CHARACTERS]} … ({len(data or b''):,} bytes; --json prints all)"
    parts = [place, moment(record.timestamp), "-" if record.key is None else record.key]
    return line("  ".join([*parts, *([record.type] if record.type else []), value]))


def _document(record: Record) -> dict[str, Any]:
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else line(record.key),
        "type": record.type,
        "id": record.id or None,
        "headers": record.headers,
    }
    try:
        return document | {"value": None if record.data is None else record.data.decode()}
    except UnicodeDecodeError:
        return document | {"value": None, "data_base64": b64encode(record.data or b"").decode()}
