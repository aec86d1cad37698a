"""Verifies a log in files, and rebuilds its indexes: for a suspicion, or a broken disk.

Works on the directory itself, whether its tables can be read or not; they only supply the topics' names.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from penstock.database.address import directory_in
from penstock.errors import Error, InvalidUrl, LogMismatch, StoreError, StoreMissing, UnknownPartition, UnknownTopic
from penstock.log.contract import Topic
from penstock.log.files.directory import TOPICS
from penstock.log.files.disk import Disk, WriterLock, write_whole, writer_pid
from penstock.log.files.folder import PartitionFolder, load_segments
from penstock.log.files.log import FileLog
from penstock.log.files.open_files import OpenFiles
from penstock.log.files.settings import FilesSettings
from penstock.log.files.tables import NAME as TABLES
from penstock.log.files.verify import (
    Advance,
    Finding,
    Kind,
    PartitionWalk,
    Walked,
    WalkedBatch,
    check_identity,
    check_tables,
    partition_folders,
    size_of,
    topic_folders,
)
from penstock.log.store import Store, open_store
from penstock.log.topics import topic_uuid

from .doctor import DoctorFinding, PartState

FORMS = ("a directory", "file:///directory")


class LogFolder(NamedTuple):
    """A partition's folder and its topic's name, or the topic's UUID if the tables do not know it."""

    folder: PartitionFolder
    topic: str


@dataclass(slots=True)
class Verified:
    """The result of a walk: how much was read, and the findings; `is_sound` if all of them are notes."""

    findings: list[Finding] = field(default_factory=list)
    walked: Walked = field(default_factory=Walked)
    partitions: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged or unreadable."""
        return all(each.kind is Kind.NOTE for each in self.findings)


def log_folders(url: str, topic: str | None = None, partition: int | None = None) -> list[LogFolder]:
    """Return the partitions of a log in files. Raises InvalidUrl, StoreMissing, UnknownTopic, UnknownPartition."""
    path = directory_of(url)
    names = _topics(url)
    found = [
        LogFolder(folder, names[uuid].name if uuid in names else str(uuid))
        for uuid, home in topic_folders(path).items()
        for folder in partition_folders(uuid, home)
    ]
    if topic is not None:
        found = [each for each in found if topic in (each.topic, str(each.folder.topic))]
        names = {uuid: each for uuid, each in names.items() if topic in (each.name, str(uuid))}
        if not found and not names:
            raise UnknownTopic(topic)
    if partition is not None:
        known = [(each.partitions, each.name) for each in names.values()]
        seen = [(each.folder.partition + 1, each.topic) for each in found]
        count, largest = max(known + seen, default=(0, topic or ""))
        if not 0 <= partition < count:
            raise UnknownPartition(largest, partition, count)
        found = [each for each in found if each.folder.partition == partition]
    return sorted(found, key=lambda each: (each.topic, each.folder.partition))


def directory_of(url: str) -> Path:
    """Return the directory of a log in files. Raises InvalidUrl for another store, StoreMissing."""
    where = directory_in(url)
    if where is None:
        raise InvalidUrl(url, FORMS)
    path = Path(where)
    if not (path / TOPICS).is_dir():
        names = Disk().names(path)
        is_unwritten = TABLES in names and all(each.startswith(TABLES) for each in names)
        if not is_unwritten:
            raise StoreMissing(f"{where}, or it is not a log in files")
    return path


def total_bytes(folders: list[LogFolder]) -> int:
    """Return about how many bytes a walk reads."""
    return sum(size_of(each.folder) for each in folders)


def verify(
    url: str,
    folders: list[LogFolder],
    *,
    progress: Advance = lambda size: None,
    found: Callable[[Finding], None] = lambda finding: None,
) -> Verified:
    """Walk every batch of some partitions; calls `found` with each finding as it comes."""
    path = directory_of(url)
    done = Verified(partitions=len(folders))
    written = writer_pid(path) is not None

    def noted(findings: Iterator[Finding]) -> None:
        for each in findings:
            done.findings.append(each)
            found(each)

    noted(check_identity(path))
    noted(check_tables(path))
    if done.is_sound:
        noted(_check_parts(url))
    for each in folders:
        walk = PartitionWalk(each.folder, written=written, progress=progress)
        noted(iter(walk))
        done.walked += walk.walked
    return done


def _check_parts(url: str) -> Iterator[Finding]:
    """Yield a finding if segments and tables do not belong together."""
    with suppress(StoreError), closing(open_store(url)) as store:
        try:
            store.log.check_parts()
        except LogMismatch as exc:
            yield Finding(Kind.DAMAGE, TABLES, -1, -1, str(exc))


def batches(url: str, folder: LogFolder) -> Iterator[WalkedBatch | Finding]:
    """Yield every whole batch of a partition, and the damage between them."""
    written = writer_pid(directory_of(url)) is not None
    yield from PartitionWalk(folder.folder, written=written).batches()


def repair_index(url: str, folders: list[LogFolder], *, progress: Advance = lambda size: None) -> tuple[int, int]:
    """Rebuild the indexes of closed segments from their batches; return how many, and how many differed.

    Filters are removed, and rebuilt when they are needed. Raises WriterElsewhere, OSError.
    """
    with ExitStack() as stack:
        stack.callback(WriterLock(directory_of(url)).release)
        differing = [differs for each in folders for differs in _repaired(each.folder, progress)]
    return len(differing), sum(differing)


def _repaired(folder: PartitionFolder, progress: Advance) -> Iterator[bool]:
    disk = Disk()
    with closing(OpenFiles(disk, 16)) as files:
        for segment in load_segments(files, folder, FilesSettings.load().index_bytes)[:-1]:
            before = segment.index_path.read_bytes() if disk.exists(segment.index_path) else b""
            disk.remove(segment.index_path)
            disk.remove(segment.path.with_suffix(".filter"))
            content = segment.index.encode(segment.end)
            write_whole(disk, segment.index_path, content)
            progress(segment.end_position)
            yield before != content


def _topics(url: str) -> dict[UUID, Topic]:
    """Return the topics that the tables know; none if the tables cannot be read."""
    with closing(open_store(url)) as store, suppress(Error):
        id = store.log.identity().id
        return {topic_uuid(id, each.id): each for each in store.log.topics()}
    return {}


_PART = "Log in files"
_MOST_BYTES = 256 * 1024 * 1024


def examine_files(store: Store, most_bytes: int = _MOST_BYTES) -> list[DoctorFinding]:
    """Return the damage in a log in files; reads the smallest partitions first, `most_bytes` in total."""
    log = store.log
    if not isinstance(log, FileLog):
        return []
    path = log.directory.path
    written = writer_pid(path) is not None
    folders = [each for uuid, home in topic_folders(path).items() for each in partition_folders(uuid, home)]
    found: list[Finding] = list(check_identity(path))
    left, looked, walked = most_bytes, 0, Walked()
    for size, folder in sorted(((size_of(each), each) for each in folders), key=lambda pair: pair[0]):
        if size > left:
            break
        left -= size
        walk = PartitionWalk(folder, written=written)
        found += walk
        walked, looked = walked + walk.walked, looked + 1
    id = log.identity().id
    names = {topic_uuid(id, each.id): each.name for each in log.topics()}
    damaged, unreadable = [], []
    for each in found:
        if each.kind is Kind.DAMAGE:
            place = each.file if each.topic is None else f"{names.get(each.topic, each.topic)}/{each.partition}"
            enables = "these records and, for a Kafka client, those after them"
            remedy = "run penstock log verify for the exact place; restore that file from a backup"
            damaged.append(DoctorFinding(_PART, PartState.BROKEN, f"{place} is damaged: {each.why}", enables, remedy))
        elif each.kind is Kind.UNREADABLE:
            text, remedy = f"{each.file}: {each.why}", "let the user that runs Penstock read that file"
            unreadable.append(DoctorFinding(_PART, PartState.BROKEN, text, f"partition {each.partition}", remedy))
    of = "" if looked == len(folders) else f" of {len(folders)}; the rest: penstock log verify"
    result = f"no damage in {walked.bytes / 1_000_000:,.0f} MB, {looked} partitions{of}"
    return damaged + unreadable or [DoctorFinding(_PART, PartState.OK, result, "every reader of its topics")]
