"""`penstock produce`: adds lines to a topic, one record each."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import click

from penstock.clock import SYSTEM
from penstock.model.ids import new_id
from penstock.model.limits import check_type
from penstock.model.record import RawHeaders, Record
from penstock.operate.kafka_cluster import KafkaCluster, is_kafka

from .options import json_option, opened, store_options
from .output import print_json

_READ_BYTES = 256 * 1024
AppendLines = Callable[[list[Record]], None]


def _headers(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> RawHeaders:
    pairs = []
    for each in given:
        name, found, value = each.partition("=")
        if not (found and name):
            raise click.BadParameter(f"{each!r} must be NAME=VALUE, such as source=import")
        pairs.append((name, value.encode()))
    return tuple(pairs)


@click.command("produce")
@click.argument("topic")
@store_options
@click.option("--key-separator", metavar="TEXT", help="The text that ends the key at the start of each line.")
@click.option("--header", "headers", multiple=True, callback=_headers, help="NAME=VALUE; may be repeated.")
@click.option("--type", "type", help="The event type of every record.")
@click.option("--partition", type=int, help="The partition of every record; default: by its key.")
@json_option
def command(
    topic: str,
    url: str,
    prefix: str,
    schema: str | None,
    key_separator: str | None,
    headers: RawHeaders,
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
    separator = None if key_separator is None else key_separator.encode()
    if separator == b"":
        raise click.BadParameter("it is empty", param_hint="--key-separator")
    count = 0
    with _appending(topic, url, prefix, schema, partition) as append:
        for lines in _parts(sys.stdin.buffer):
            numbered = enumerate(lines, count + 1)
            append([_record(each, separator, headers, type, number) for number, each in numbered])
            count += len(lines)
    if as_json:
        print_json({"topic": topic, "records": count})
    else:
        click.echo(f"{count} record{'' if count == 1 else 's'} added to topic {topic}")


@contextmanager
def _appending(
    topic: str, url: str, prefix: str, schema: str | None, partition: int | None
) -> Iterator[AppendLines]:
    if is_kafka(url):
        with KafkaCluster(url) as cluster:
            cluster.check(topic, partition)
            yield lambda records: cluster.produce(topic, records, partition=partition)
        return
    with opened(url, prefix, schema) as store:
        store.log.topic(topic)

        def append(records: list[Record]) -> None:
            store.log.append(topic, records, partition=partition)

        yield append


def _parts(source: BinaryIO) -> Iterator[list[bytes]]:
    """Yield whole lines, all that are available at a time."""
    rest = b""
    while data := source.read1(_READ_BYTES):  # type: ignore[attr-defined]  # standard input is buffered
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield [each.removesuffix(b"\r") for each in lines]
    if rest:
        yield [rest]


def _record(
    text: bytes, separator: bytes | None, headers: RawHeaders, type: str | None, number: int
) -> Record:
    key = None
    if separator is not None:
        key, found, text = text.partition(separator)
        if not found:
            shown = key[:80].decode("utf-8", "replace")
            raise click.UsageError(f"line {number} has no {separator.decode()!r} after its key: {shown!r}")
    now_ms = SYSTEM.now_ms()
    name = None if key is None else key.decode("utf-8", "surrogateescape")
    return Record(new_id(now_ms), name, text, type, headers, now_ms)
