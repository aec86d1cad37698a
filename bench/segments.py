"""What the cases about logs in files share: batches as Kafka clients send them, and directories for them.

Everything is in a folder of its own on the disk under the working directory, not in memory.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Semaphore
from typing import Any

from bench.run import Run
from penstock.log.batches import WriteResult
from penstock.log.contract import Topic
from penstock.log.files.directory import LogDirectory
from penstock.log.files.log import FileLog
from penstock.log.files.partition import PartitionLog
from penstock.log.files.writer import PartitionWrite
from penstock.log.store import Store, open_store
from penstock.wire.kafka.record_batch import batches_in, check_produced
from penstock.wire.kafka.records import KafkaRecord, encode_records

RECORD_BYTES = 1_000
BATCH_RECORDS = 64
TOPIC = "rows"
PARTITIONS = (1, 16, 256)
REQUEST_BATCHES = 16  # a mebibyte, as much as a client packs into one request
Request = list[tuple[int, bytearray]]  # partition, and its batches one after another
_UNDER_WAY = 4  # requests that wait at the same time


@contextmanager
def folder(run: Run) -> Iterator[Path]:
    """Give an empty folder on the disk that this is run from."""
    with TemporaryDirectory(prefix=".bench-", dir=os.getcwd()) as path:
        yield Path(path)


def a_batch(records: int = BATCH_RECORDS, size: int = RECORD_BYTES) -> bytes:
    """Return one batch as a client sends it."""
    value = os.urandom(size)
    made = encode_records(
        KafkaRecord(delta, 1_700_000_000_000, struct.pack(">Q", delta), value, []) for delta in range(records)
    )
    return bytes(made)


@contextmanager
def opened(path: Path, durability: str = "os", **settings: Any) -> Iterator[tuple[Store, FileLog]]:
    """Give a log in a directory, migrated, set to acknowledge as said."""
    from penstock.database.migrations import migrate

    store = open_store(f"file://{path}")
    log = store.log
    assert isinstance(log, FileLog)
    directory = log.directory
    assert isinstance(directory, LogDirectory)
    directory.settings = directory.settings.__class__.load(durability=durability, **settings)
    try:
        migrate(store.database)
        yield store, log
    finally:
        store.close()


def requests(partitions: int, batches: int, batch: bytes, request_batches: int = REQUEST_BATCHES) -> list[Request]:
    """Return batches as clients send them: so many in a request, in turn to all partitions."""
    made = []
    for first in range(0, batches, request_batches):
        of: dict[int, bytearray] = {}
        for number in range(first, min(batches, first + request_batches)):
            of.setdefault(number % partitions, bytearray()).extend(batch)
        made.append(list(of.items()))
    return made


def append_all(log: FileLog, topic: Topic, requests: Sequence[Request]) -> None:
    """Append requests as the broker does: checked, handed over, then awaited."""
    writer, room = log.writer, Semaphore(_UNDER_WAY)
    failed: list[WriteResult] = []

    def done(found: Sequence[WriteResult]) -> None:
        failed.extend(each for each in found if each.error is not None)
        room.release()

    places = [log.partition(topic, number) for number in range(topic.partitions)]
    for request in requests:
        writes = [_write(places[number], batches) for number, batches in request]
        room.acquire()
        writer.append(writes, done)
    for _ in range(_UNDER_WAY):
        room.acquire()
    assert not failed, failed[0].error


def _write(partition: PartitionLog, batches: bytearray) -> PartitionWrite:
    headers = list(batches_in(batches))
    for _, header in headers:
        check_produced(header)
    return PartitionWrite(partition, batches, headers)
