"""One partition of a log in files, without the tables around it: opened, filled, damaged, opened again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

from penstock.clock import SYSTEM, Clock
from penstock.log.batches import WriteResult
from penstock.log.entry import Content
from penstock.log.files.disk import Disk
from penstock.log.files.folder import PartitionFolder
from penstock.log.files.heads import HeadsFile
from penstock.log.files.open_files import OpenFiles
from penstock.log.files.partition import PartitionLog
from penstock.log.files.settings import FilesSettings
from penstock.log.files.writer import LogWriter, PartitionWrite
from penstock.log.kafka_form import encode_contents
from penstock.wire.kafka.record_batch import read_header

TOPIC = UUID(int=7)


class OpenPartition:
    """A partition with its writer."""

    def __init__(
        self, folder: Path, *, disk: Disk | None = None, clock: Clock = SYSTEM, start: int = 0, **settings: Any
    ) -> None:
        self.disk = disk or Disk()
        self.settings = FilesSettings(**({"segment_bytes": 4096, "index_bytes": 400} | settings))
        self.folder = folder / str(TOPIC)
        self.disk.make_folder(self.folder)
        self.files = OpenFiles(self.disk, 64)
        self.heads = HeadsFile(self.disk, self.folder)
        place = PartitionFolder(self.folder / "0", TOPIC, 0)
        self.partition = PartitionLog(self.files, place, self.heads, self.settings, clock, 1)
        self.partition.recover(start)
        self.writer = LogWriter(self.settings, clock, lambda _: None)

    def append(self, *values: str) -> WriteResult:
        """Append records of these ids as one batch."""
        contents = [Content(each, each.encode(), "t", each.encode() * 5, None, 1000, "o") for each in values]
        batch = encode_contents(contents)
        return self.write([PartitionWrite(self.partition, batch, [(0, read_header(batch))])])[0]

    def write(self, writes: Sequence[PartitionWrite]) -> list[WriteResult]:
        done, results = Event(), list[WriteResult]()

        def told(found: Sequence[WriteResult]) -> None:
            results.extend(found)
            done.set()

        self.writer.append(writes, told)
        assert done.wait(30)
        return results

    def ids(self) -> dict[int, str]:
        """Return all that it holds, by offset. Raises Damaged."""
        return {each.offset: each.id for each in self.partition.entries(0, 1 << 60)}

    def close(self, *, clean: bool = True) -> None:
        """Stop; not clean: as if the process had ended in the middle."""
        self.writer.stop()
        if clean:
            self.partition.close()
        self.heads.close()
        self.files.close()


@contextmanager
def open_partition(folder: Path, *, clean: bool = True, **options: Any) -> Iterator[OpenPartition]:
    """Give a partition until the block ends."""
    opened = OpenPartition(folder, **options)
    try:
        yield opened
    finally:
        opened.close(clean=clean)


def filled(folder: Path, batches: int, *, clean: bool = True, **options: Any) -> dict[int, str]:
    """Append batches of three records and return what is there."""
    with open_partition(folder, clean=clean, **options) as opened:
        for number in range(batches):
            assert opened.append(*(f"{number}-{each}" for each in "abc")).error is None
        return opened.ids()
