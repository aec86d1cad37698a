"""`penstock tail` and `produce`: the records of a topic as lines."""

import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

import click

from penstock.clock import SYSTEM
from penstock.model.ids import new_id
from penstock.model.limits import check_type
from penstock.model.record import RawHeaders, Record
from penstock.operate.kafka_cluster import KafkaCluster, KafkaTail, is_kafka
from penstock.operate.tail import EARLIEST, LATEST, StartPlace, StoreTail

from .options import ChosenStore, json_option, store_options
from .output import json_line, line, moment, print_result
from .units import name_value, topic_place

_READ_BYTES = 256 * 1024
AppendLines = Callable[[list[Record]], object]

_SHOWN_CHARACTERS = 200


@click.command("tail")
@click.argument("topic")
@store_options
@click.option(
    "--from",
    "start",
    type=topic_place,
    metavar="earliest|latest|OFFSET|MOMENT|2h",
    help="Where to begin; default: latest, or earliest with --no-follow.",
)
@click.option("--follow/--no-follow", default=True, help="Wait for more at the end, or stop there.")
@click.option("--partition", type=int, help="Only this partition.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document per line.")
def tail_command(
    topic: str,
    chosen: ChosenStore,
    start: StartPlace | None,
    follow: bool,
    limit: int | None,
    as_json: bool,
    partition: int | None,
) -> None:
    """Print the records of a topic, and new ones as they come, until it is stopped.

    Reads beside all other readers and moves no group. The store may also be a Kafka cluster:
    kafka://host:port. Within a partition records come in order; an OFFSET applies to every partition.
    """
    if start is None:
        start = LATEST if follow else EARLIEST
    with _tail(topic, chosen, start, partition) as tail:
        for record in islice(_records(tail, follow), limit):
            click.echo(json_line(_document(record)) if as_json else _text(record))


def _records(tail: StoreTail | KafkaTail, follow: bool) -> Iterator[Record]:
    yield from tail.records()
    while follow:
        tail.wait()
        yield from tail.records()


@contextmanager
def _tail(topic: str, chosen: ChosenStore, start: StartPlace, partition: int | None) -> Iterator[StoreTail | KafkaTail]:
    if not is_kafka(chosen.url):
        with chosen.opened() as store:
            yield StoreTail(store, topic, start, partition=partition)
        return
    with KafkaCluster(chosen.url) as cluster, closing(cluster.tail(topic, start, partition=partition)) as tail:
        yield tail


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


@click.command("produce")
@click.argument("topic")
@store_options
@click.option("--key-separator", metavar="TEXT", help="The text that ends the key at the start of each line.")
@click.option("--header", "pairs", type=name_value, multiple=True, metavar="TEXT", help="NAME=VALUE; may be repeated.")
@click.option("--type", "type", help="The event type of every record.")
@click.option("--partition", type=int, help="The partition of every record; default: by its key.")
@json_option
def produce_command(
    topic: str,
    chosen: ChosenStore,
    key_separator: str | None,
    pairs: tuple[tuple[str, str], ...],
    type: str | None,
    partition: int | None,
    as_json: bool,
) -> None:
    """Add the lines of standard input to a topic, one record each, as they come.

    Each part of the input is durable before more of it is read. The topic must exist. The store may also be a
    Kafka cluster: kafka://host:port. That is how to write to a directory that `penstock serve` has open.
    """
    if type is not None:
        check_type(type)
    headers = tuple((name, value.encode()) for name, value in pairs)
    separator = None if key_separator is None else key_separator.encode()
    if separator == b"":
        raise click.BadParameter("it is empty", param_hint="--key-separator")
    count = 0
    with _appending(topic, chosen, partition) as append:
        for lines in _parts(sys.stdin.buffer):
            numbered = enumerate(lines, count + 1)
            append([_record(each, separator, headers, type, number) for number, each in numbered])
            count += len(lines)
    print_result(
        {"topic": topic, "records": count},
        f"{count} record{'' if count == 1 else 's'} added to topic {topic}",
        as_json=as_json,
    )


@contextmanager
def _appending(topic: str, chosen: ChosenStore, partition: int | None) -> Iterator[AppendLines]:
    if is_kafka(chosen.url):
        with KafkaCluster(chosen.url) as cluster:
            cluster.check(topic, partition)
            yield partial(cluster.produce, topic, partition=partition)
        return
    with chosen.opened() as store:
        store.log.topic(topic)
        yield partial(store.log.append, topic, partition=partition)


def _parts(source: BinaryIO) -> Iterator[list[bytes]]:
    """Yield whole lines, all that are available at a time."""
    rest = b""
    while data := source.read1(_READ_BYTES):  # type: ignore[attr-defined]  # standard input is buffered
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield [each.removesuffix(b"\r") for each in lines]
    if rest:
        yield [rest]


def _record(text: bytes, separator: bytes | None, headers: RawHeaders, type: str | None, number: int) -> Record:
    key = None
    if separator is not None:
        key, found, text = text.partition(separator)
        if not found:
            shown = key[:80].decode("utf-8", "replace")
            raise click.UsageError(f"line {number} has no {separator.decode()!r} after its key: {shown!r}")
    now_ms = SYSTEM.now_ms()
    name = None if key is None else key.decode("utf-8", "surrogateescape")
    return Record(new_id(now_ms), name, text, type, headers, now_ms)
