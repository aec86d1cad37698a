"""The storage of a lake: the interface of its files and folders, and the operations a storage must offer.

Two kinds implement it: folders of a file system (`local.py`) and buckets of an object store (`bucket.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, Any, Generic, Protocol, Self, TypeVar

TextChange = Callable[[bytes | None], bytes | None]  # from a file's content to its new content; None: leave it


class Location(Protocol):
    """A file or folder of a lake: the part of `pathlib.Path` that lakes use, so that a Path is one."""

    @property
    def name(self) -> str:
        """The last part."""

    @property
    def parent(self) -> Self:
        """The folder that contains it."""

    def __truediv__(self, name: str, /) -> Self: ...
    def __lt__(self, other: Self, /) -> bool: ...
    def absolute(self) -> Self:
        """Return it independent of the working folder."""

    def exists(self) -> bool:
        """Return whether it exists."""

    def is_dir(self) -> bool:
        """Return whether it is a folder."""

    def is_file(self) -> bool:
        """Return whether it is a file."""

    def iterdir(self) -> Iterator[Self]:
        """Yield the files and folders directly below."""

    def glob(self, pattern: str) -> Iterator[Self]:
        """Yield the files and folders directly below whose name matches."""

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make the folder, where the storage needs one."""

    def read_bytes(self) -> bytes:
        """Return the content. Raises FileNotFoundError."""

    def stat(self) -> Any:
        """Return its `st_size` in bytes, and its `st_mtime` in seconds since 1970. Raises FileNotFoundError."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""


At = TypeVar("At", contravariant=True)


class Storage(ABC, Generic[At]):
    """The file operations that differ between kinds of storage. It keeps no state."""

    keeps_checkpoints: bool  # whether Spark's checkpoint can be inside a lake
    keeps_catalogs: bool  # whether a catalog of Iceberg tables can
    settles_late: bool  # whether a file may appear after its write was reported as failed
    delta_options: dict[str, str] | None  # that delta-rs needs to reach tables
    iceberg_options: Mapping[str, str]  # that pyiceberg needs

    @abstractmethod
    def check(self, option: str, path: At) -> None:
        """Refuse a location that cannot hold a lake. Raises InvalidOption, BucketMissing, StorageRefused."""

    @abstractmethod
    def asking(self, path: At) -> AbstractContextManager[None]:
        """Translate errors of any library about the storage. Raises StorageAway, StorageRefused, BucketMissing."""

    @abstractmethod
    def public_text(self, error: Exception) -> str:
        """Return the part of a library's error that may be shown: nothing that a store has answered."""

    @abstractmethod
    def begin(self, file: At) -> IO[bytes]:
        """Begin a file, in a folder that need not exist; no reader may rely on it before it is closed."""

    @abstractmethod
    def abandon(self, file: At, sink: IO[bytes]) -> None:
        """Abandon a file that was begun, and leave nothing of it behind."""

    @abstractmethod
    def bring_to_disk(self, *files: At) -> None:
        """Make files survive a power cut; missing ones are skipped."""

    @abstractmethod
    def put_new(self, file: At, content: bytes) -> None:
        """Create a file, whole and durable. Of many callers, one succeeds; the others get FileExistsError."""

    @abstractmethod
    def check_lock(self, option: str, folder: At) -> None:
        """Refuse a storage in which `put_new` can replace a file. Raises InvalidOption."""

    @abstractmethod
    def replace(self, file: At, content: bytes) -> None:
        """Write a file, whole and durable, whether it exists or not."""

    @abstractmethod
    def update(self, file: At, change: TextChange) -> None:
        """Write the content that a function returns for a file's content, or for None if there is no file."""

    @abstractmethod
    def copy(self, file: At, target: At) -> None:
        """Copy a file to a folder that need not exist, or link it: it is never written to again. It may be there."""

    @abstractmethod
    def remove(self, path: At) -> None:
        """Remove a file, or a folder with its content."""

    @abstractmethod
    def files_below(self, path: At) -> Iterator[Location]:
        """Yield the files in a folder and in all folders below it."""

    @abstractmethod
    def parquet(self, file: At) -> Any:
        """Open a Parquet file to read. Raises FileNotFoundError."""
