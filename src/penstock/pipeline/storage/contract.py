"""Where a lake lives: what its files and folders can be asked, and what a storage must do with them.

Two kinds fill it: folders of a file system (`local.py`) and buckets of an object store (`bucket.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, Any, Generic, Protocol, Self, TypeVar

TextChange = Callable[
    [bytes | None], bytes | None
]  # from what a file holds to what it shall hold; None: as it is


class FileFigures(Protocol):
    """What is known of a file: its bytes, and when it was written, in seconds since 1970."""

    @property
    def st_size(self) -> int:
        """Its bytes."""

    @property
    def st_mtime(self) -> float:
        """When it was written."""


class Location(Protocol):
    """A file or folder of a lake: as much of `pathlib.Path` as is asked of one, so that a Path is one."""

    @property
    def name(self) -> str:
        """The last part."""

    @property
    def parent(self) -> Self:
        """What it is in."""

    def __truediv__(self, name: str, /) -> Self: ...
    def __lt__(self, other: Self, /) -> bool: ...
    def absolute(self) -> Self:
        """Return it, whatever folder a process is in."""

    def exists(self) -> bool:
        """Return whether it is there."""

    def is_dir(self) -> bool:
        """Return whether it is a folder."""

    def is_file(self) -> bool:
        """Return whether it is a file."""

    def iterdir(self) -> Iterator[Self]:
        """Yield what is directly below."""

    def glob(self, pattern: str) -> Iterator[Self]:
        """Yield what is directly below and has such a name."""

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make the folder, where one must be made."""

    def read_bytes(self) -> bytes:
        """Return the content. Raises FileNotFoundError."""

    def stat(self) -> FileFigures:
        """Return its figures. Raises FileNotFoundError."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""


At = TypeVar("At", contravariant=True)


class Storage(ABC, Generic[At]):
    """What is done with files in another way where they are kept in another way. It keeps no state.

    `keeps_checkpoints`: whether Spark's checkpoint can be inside a lake. `keeps_catalogs`: whether a catalog
    of Iceberg tables can. `settles_late`: whether a file may come to be after its making was reported as
    failed. `delta_options` and `iceberg_options`: what delta-rs and pyiceberg must know to reach tables.
    """

    keeps_checkpoints: bool
    keeps_catalogs: bool
    settles_late: bool
    delta_options: Mapping[str, str] | None
    iceberg_options: Mapping[str, str]

    @abstractmethod
    def check(self, option: str, path: At) -> None:
        """Refuse a place where no lake can be. Raises InvalidOption, BucketMissing, StorageRefused."""

    @abstractmethod
    def asking(self, path: At) -> AbstractContextManager[None]:
        """Say in our words that files cannot be reached, whichever library finds it out.

        Raises StorageAway, StorageRefused, BucketMissing.
        """

    @abstractmethod
    def told(self, error: Exception) -> str:
        """Return what may be told of an error that a library has raised: nothing of what a store answers."""

    @abstractmethod
    def begin(self, file: At) -> IO[bytes]:
        """Begin a file, in a folder that need not be there; nobody must count on it before it is closed."""

    @abstractmethod
    def abandon(self, file: At, sink: IO[bytes]) -> None:
        """Give up a file that was begun, and leave no file of it."""

    @abstractmethod
    def bring_to_disk(self, *files: At) -> None:
        """See that files survive a power cut; those that are not there are passed over."""

    @abstractmethod
    def put_new(self, file: At, content: bytes) -> None:
        """Make a file, whole and lasting. Raises FileExistsError if there is one: of many, one succeeds."""

    @abstractmethod
    def check_lock(self, option: str, folder: At) -> None:
        """Refuse a storage in which a file that must be new can take the place of another.

        Raises InvalidOption.
        """

    @abstractmethod
    def replace(self, file: At, content: bytes) -> None:
        """Write a file as a whole, lasting, whether there is one or not."""

    @abstractmethod
    def update(self, file: At, change: TextChange) -> None:
        """Write what a function makes of a file's content, or of None if there is no file."""

    @abstractmethod
    def copy(self, file: At, target: At) -> None:
        """Let a file stand in another folder, too, which need not be there; one that does already may stay.

        It is a file that is never written to: both may share what is on the disk.
        """

    @abstractmethod
    def remove(self, path: At) -> None:
        """Remove a file, or a folder with all that is in it."""

    @abstractmethod
    def files_below(self, path: At) -> Iterator[Location]:
        """Yield the files in a folder and in all folders below it."""

    @abstractmethod
    def parquet(self, file: At) -> Any:
        """Open a Parquet file to read. Raises FileNotFoundError."""
