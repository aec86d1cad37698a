"""The directory of a log in files: its topics' folders, its open files, and, in one process, its writer.

    data/
        penstock.db            topics, groups, cursors, lanes: the usual tables, in SQLite
        identity               which log it is
        writer.lock            held by the process that writes
        topics/<uuid>/         one folder for each topic
            heads              the bounds of its partitions
            <partition>/       segments, their indexes, snapshots of producers

All users of the same directory in one process share one `LogDirectory`, and so one writer. It does not know
SQL: `FileLog` joins it with the tables. Safe from any thread.
"""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock, RLock
from typing import ClassVar
from uuid import UUID

from penstock.clock import Clock

from .disk import Disk, WriterLock
from .folder import PartitionFolder
from .heads import HeadsFile, PartitionHead
from .open_files import OpenFiles
from .partition import PartitionLog
from .partition_view import PartitionReader
from .settings import FilesSettings
from .upkeep import Upkeep
from .writer import LogWriter

TOPICS = "topics"


class TopicFiles:
    """The files of one topic."""

    def __init__(self, disk: Disk, path: Path, uuid: UUID, id: int, name: str = "") -> None:
        self.path, self.uuid, self.id, self._name = path, uuid, id, name
        self.heads = HeadsFile(disk, path)
        self.views: dict[int, PartitionReader] = {}
        self.partitions: dict[int, PartitionLog] = {}
        self.maps = 0  # rises with each growth: records placed by an older map are placed again
        self.settled_maps = 0  # growths up to here are committed and in the tables

    @property
    def is_growing(self) -> bool:
        """Whether a growth has begun whose transaction may still be open."""
        return self.maps != self.settled_maps

    def folder(self, partition: int) -> PartitionFolder:
        """Return the folder of a partition."""
        return PartitionFolder(self.path / str(partition), self.uuid, partition, self._name)


class LogDirectory:
    """One directory, in this process."""

    _shared: ClassVar[dict[tuple[int, str], "LogDirectory"]] = {}
    _shared_lock: ClassVar[Lock] = Lock()

    def __init__(self, path: Path, settings: FilesSettings, clock: Clock, disk: Disk) -> None:
        self.path, self.settings, self.disk, self._clock = path, settings, disk, clock
        self.files = OpenFiles(disk, settings.open_files)
        self.upkeep = Upkeep(settings)
        self._topics: dict[int, TopicFiles] = {}
        self._lock = RLock()
        self._writer_change = RLock()  # held while the writer starts or stops; `_lock` is taken inside it
        self._writer: LogWriter | None = None
        self._writer_lock: WriterLock | None = None
        self._watchers: list[Callable[[int, int], None]] = []
        self._users = 0
        self._gone: set[int] = set()

    # -- sharing

    @classmethod
    def shared(cls, path: Path, settings: FilesSettings, clock: Clock) -> "LogDirectory":
        """Return this process's one object for a directory; each call needs one `close`."""
        key = os.getpid(), os.path.realpath(path)
        with cls._shared_lock:
            found = cls._shared.get(key)
            if found is None:
                found = cls._shared[key] = cls(Path(key[1]), settings, clock, Disk())
            found._users += 1
            return found

    def close(self) -> None:
        """Stop writing once the last user in this process has closed it."""
        with self._shared_lock:
            self._users -= 1
            if self._users > 0:
                return
            self._shared.pop((os.getpid(), str(self.path)), None)
        self.stop_writing()
        with self._lock:
            for topic in self._topics.values():
                topic.heads.close()
            self._topics = {}
            self.files.close()

    # -- writing

    @property
    def is_writing(self) -> bool:
        """Whether this process writes."""
        return self._writer is not None

    def writer(self, claim: Callable[[], None]) -> LogWriter:
        """Return the writer; the first call takes the lock and claims the directory. Raises WriterElsewhere."""
        if self._writer is not None:
            return self._writer
        with self._writer_change:
            if self._writer is None:
                self.disk.make_folder(self.path / TOPICS)
                self.disk.sync_folder(self.path)
                self.disk.sync_folder(self.path.parent)
                self._writer_lock = WriterLock(self.path)
                try:
                    claim()
                except BaseException:
                    self._writer_lock.release()
                    self._writer_lock = None
                    raise
                self._writer = LogWriter(self.settings, self._clock, self._moved)
            return self._writer

    def stop_writing(self) -> None:
        """Finish, sync and release the lock for another process."""
        with self._writer_change:
            writer, self._writer = self._writer, None
            if writer is None:
                return
            writer.stop()
            with self._lock:
                for topic in self._topics.values():
                    for partition in topic.partitions.values():
                        partition.close()
                    topic.partitions = {}
                    topic.heads.sync()
            assert self._writer_lock is not None
            self._writer_lock.release()
            self._writer_lock = None

    def watch(self, moved: Callable[[int, int], None]) -> Callable[[], None]:
        """Call `moved(topic_id, partition)` in the writer's thread when an end rises, until the result is called."""
        self._watchers.append(moved)
        return lambda: self._watchers.remove(moved)

    def _moved(self, partition: PartitionLog) -> None:
        for each in list(self._watchers):
            each(partition.topic_id, partition.folder.partition)

    # -- topics

    def known(self, id: int) -> TopicFiles | None:
        """Return the files of a topic if they are known."""
        return self._topics.get(id)

    def topic(self, id: int, uuid: UUID, name: str = "") -> TopicFiles:
        """Return the files of a topic, even before any exist; the writer passes its name."""
        found = self._topics.get(id)
        if found is None:
            with self._lock:
                path = self.path / TOPICS / str(uuid)
                found = self._topics.setdefault(id, TopicFiles(self.disk, path, uuid, id, name))
        return found

    def partition(
        self, topic: TopicFiles, number: int, start: Callable[[], int], passed: Callable[[], int]
    ) -> PartitionLog:
        """Return a partition for writing, recovered on first use.

        Raises OSError. `start`, `passed`: the first offset kept, and the highest offset that a group has
        passed, from the tables.
        """
        found = topic.partitions.get(number)
        if found is None:
            with self._lock:
                found = topic.partitions.get(number)
                if found is None:
                    folder = topic.folder(number)
                    found = PartitionLog(self.files, folder, topic.heads, self.settings, self._clock, topic.id)
                    found.recover(start(), passed())
                    topic.partitions[number] = found
        return found

    def view(
        self, topic: TopicFiles, number: int, head: PartitionHead | None, start: Callable[[], int] = lambda: 0
    ) -> PartitionReader:
        """Return a partition as its writer elsewhere has published it. `start` returns the first offset kept."""
        found = topic.views.get(number)
        if found is None:
            folder, index_bytes = topic.folder(number), self.settings.index_bytes
            reader = PartitionReader(self.files, folder, topic.heads, index_bytes, topic.id, start)
            found = topic.views.setdefault(number, reader)
        found.refresh(head)
        return found

    def is_gone(self, topic_id: int) -> bool:
        """Return whether a topic was deleted by this process."""
        return topic_id in self._gone

    def forget(self, topic: TopicFiles) -> None:
        """Remove the files of a deleted topic."""
        with self._lock:
            self._gone.add(topic.id)
            self._topics.pop(topic.id, None)
            topic.heads.close()
            for number in self.disk.names(topic.path):
                folder = topic.path / number
                for name in self.disk.names(folder):
                    self.files.forget(folder / name)
                    self.disk.remove(folder / name)
                if number.isdecimal():
                    self.disk.remove_folder(folder)
                else:
                    self.disk.remove(folder)
            self.disk.remove_folder(topic.path)
