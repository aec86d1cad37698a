"""`penstock log`: verify, repair-index, dump: works on the files of a log in files."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from penstock.clock import from_ms
from penstock.errors import Damaged, InvalidBatch
from penstock.log.entry import Entry
from penstock.log.files.verify import Finding, Kind, WalkedBatch
from penstock.log.kafka_form import entries_of
from penstock.operate import log_files
from penstock.operate.log_files import LogFolder, Verified
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.record_batch import Compression, decode_marker

from .exit_codes import FAILED
from .options import json_option, with_options
from .output import json_line, line, moment, print_result
from .units import size_text

_LONG_BYTES = 256 << 20  # from this size on a walk shows its progress
_SHOWN_CHARACTERS = 60


_selection = with_options(
    click.argument("directory", metavar="URL", envvar="PENSTOCK_URL"),
    click.option("--topic", help="Only this topic: its name, or the UUID of its folder."),
    click.option("--partition", type=int, help="Only this partition."),
)


@click.group("log")
def command() -> None:
    """Verify, index or dump the segments of a log in files."""


@command.command("verify")
@_selection
@json_option
def verify(directory: str, topic: str | None, partition: int | None, as_json: bool) -> None:
    """Walk every batch of every segment, and report damage with its place.

    Read-only, and may run beside a writer. Exits with 1 if anything is damaged; data that a crash cut short
    before it was acknowledged, and files that are rebuilt on demand, are only notes.
    """
    folders = log_files.log_folders(directory, topic, partition)
    names = {each.folder.topic: each.topic for each in folders}

    def found(finding: Finding) -> None:
        if not as_json:
            _print_finding(finding, names, as_json=False)

    with _progress(log_files.total_bytes(folders), "verified", as_json) as progress:
        done = log_files.verify(directory, folders, progress=progress, found=found)
    print_result(_verified(done, names), _summary(done), as_json=as_json)
    if not done.is_sound:
        sys.exit(FAILED)


@command.command("repair-index")
@_selection
@json_option
def repair_index(directory: str, topic: str | None, partition: int | None, as_json: bool) -> None:
    """Rebuild the indexes of closed segments from their batches.

    Seldom needed: a missing or damaged index is rebuilt when it is read. Refused while another process writes
    the log. The segments themselves are not touched.
    """
    folders = log_files.log_folders(directory, topic, partition)
    with _progress(log_files.total_bytes(folders), "indexed", as_json) as progress:
        made, differed = log_files.repair_index(directory, folders, progress=progress)
    print_result(
        {"indexes": made, "differed": differed},
        f"{made} indexes rebuilt, {differed} of them were missing or differed",
        as_json=as_json,
    )


@command.command("dump")
@_selection
@click.option("--from", "start", type=int, default=0, show_default=True, help="From this offset on.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Most batches.")
@click.option("--records", is_flag=True, help="Show the records in each batch, too.")
@json_option
def dump(
    directory: str, topic: str | None, partition: int | None, start: int, limit: int, records: bool, as_json: bool
) -> None:
    """Show the batches in the segments of a log, markers included.

    With --json, one object per line. Damage is shown where it is found and does not end the dump, but sets
    the exit code to 1.
    """
    left, damaged = limit, False
    for folder in log_files.log_folders(directory, topic, partition):
        for each in log_files.batches(directory, folder):
            if left <= 0:
                return
            if isinstance(each, Finding):
                damaged |= each.kind is not Kind.NOTE
                _print_finding(each, {each.topic: folder.topic}, as_json)
                continue
            if each.header.next_offset <= start:
                continue
            left -= 1
            damaged |= _print_batch(folder, each, records=records, as_json=as_json)
    if damaged:
        sys.exit(FAILED)


def _print_batch(folder: LogFolder, placed: WalkedBatch, *, records: bool, as_json: bool) -> bool:
    """Print a batch; return whether its records cannot be decoded."""
    found: list[Entry] = []
    error = None
    if records:
        try:
            found = list(entries_of(placed.batch, 0, folder.folder.partition))
        except (InvalidBatch, Damaged) as exc:
            error = str(exc)
    shown = _batch(folder, placed)
    if as_json:
        rows = {"records_list": [_record(each) for each in found]} if records else {}
        click.echo(json_line(shown | rows | ({"error": error} if error else {})))
        return error is not None
    producer = f" producer {shown['producer']}" if shown["producer"] else ""
    latest = moment(from_ms(placed.header.max_timestamp))
    click.echo(
        f"{line(folder.topic)}/{folder.folder.partition} {shown['segment']} byte {shown['position']}: "
        f"offsets {shown['base_offset']} to {shown['last_offset']}, {shown['records']} records, "
        f"{shown['bytes']} bytes, {shown['kind']}, {shown['codec']}{producer}, {latest}"
    )
    for each in found:
        cut = {name: str(value)[:_SHOWN_CHARACTERS] for name, value in _record(each).items()}
        click.echo(f"    {cut['offset']}  {line(cut['type'])}  {line(cut['key'])}  {line(cut['value'])}")
    if error:
        click.echo(f"    {error}")
    return error is not None


def _batch(folder: LogFolder, placed: WalkedBatch) -> dict[str, Any]:
    header = placed.header
    producer = f"{header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}"
    kind = "transactional" if header.is_transactional else "plain"
    kind = _marker(placed.batch) if header.is_control else kind
    return {
        "topic": folder.topic,
        "partition": folder.folder.partition,
        "segment": placed.segment.path.name,
        "position": placed.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size,
        "kind": kind,
        "codec": Compression(header.codec).name.lower() if header.codec <= Compression.ZSTD else str(header.codec),
        "leader_epoch": header.leader_epoch,
        "producer": producer if header.producer_id >= 0 else None,
        "latest_ms": header.max_timestamp,
    }


def _marker(batch: Buffer) -> str:
    try:
        return f"{decode_marker(batch).name.lower()} marker"
    except InvalidBatch:
        return "marker"


def _record(entry: Entry) -> dict[str, Any]:
    return {
        "offset": entry.offset,
        "id": entry.id,
        "type": entry.type,
        "key": None if entry.key is None else entry.key.decode("utf-8", "backslashreplace"),
        "value": None if entry.value is None else entry.value.decode("utf-8", "backslashreplace"),
        "timestamp_ms": entry.timestamp_ms,
    }


@contextmanager
def _progress(total: int, verb: str, as_json: bool) -> Iterator[Callable[[int], None]]:
    if as_json or total < _LONG_BYTES or not sys.stderr.isatty():
        yield lambda size: None
        return
    columns = TextColumn(verb), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(verb, total=total)
        yield lambda size: progress.advance(task, size)


def _print_finding(finding: Finding, names: dict[Any, str], as_json: bool) -> None:
    if as_json:
        click.echo(json_line(_finding(finding, names)))
        return
    where = f" at byte {finding.position}" if finding.position >= 0 else ""
    where += f", offset {finding.offset}" if finding.offset >= 0 else ""
    named = names.get(finding.topic)
    topic = f" (topic {line(named)}, partition {finding.partition})" if named else ""
    click.echo(f"{finding.kind}: {finding.file}{topic}{where}: {line(finding.why)}")


def _finding(finding: Finding, names: dict[Any, str]) -> dict[str, Any]:
    shown = finding._asdict()
    return shown | {"topic": names.get(finding.topic, finding.topic and str(finding.topic))}


def _verified(done: Verified, names: dict[Any, str]) -> dict[str, Any]:
    return {
        "sound": done.is_sound,
        "partitions": done.partitions,
        **done.walked._asdict(),
        "findings": [_finding(each, names) for each in done.findings],
    }


def _summary(done: Verified) -> str:
    walked = done.walked
    kinds = Counter(each.kind for each in done.findings)
    damages, unreadable = kinds[Kind.DAMAGE], kinds[Kind.UNREADABLE]
    found = {0: "nothing is damaged", 1: "one place is damaged"}.get(damages, f"{damages} places are damaged")
    found += f"; files that cannot be read: {unreadable}" if unreadable else ""
    if done.is_sound and not done.partitions:
        return "nothing has been written yet, and nothing is damaged"
    return (
        f"{walked.batches} batches with {walked.records} records, {size_text(walked.bytes)}, in "
        f"{walked.segments} segments of {done.partitions} partitions: {found}"
    )
