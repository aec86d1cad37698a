"""Lakes in buckets of an object store that speaks S3, reached by obstore: the store that delta-rs has, too.

Endpoint, region and credentials come from the environment of each process (`AWS_ENDPOINT_URL`, `AWS_REGION`,
`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ALLOW_HTTP`, …), or from the machine's role: what is sent
to executors holds none of them. What a store answers may quote the request, so it is not passed on.

An object is there as a whole and lasts when its put is answered. The condition of a put (`If-None-Match`,
`If-Match`) is what a lock is on a disk: of several, one succeeds. A put whose answer is lost may have
counted, and then its repetition is refused; who is refused looks again.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import IO, Any, NamedTuple, cast
from uuid import uuid4

from penstock.errors import (
    BucketMissing,
    Error,
    InvalidOption,
    MissingExtra,
    PipelineFailed,
    StorageAway,
    StorageRefused,
)

from .contract import Storage, TextChange

try:
    import obstore
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake.exceptions import DeltaError
    from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
    from obstore.store import S3Store
except ImportError as exc:
    raise MissingExtra("a lake in an object store", "s3") from exc

_SCHEME = "s3://"
# A file is sent in parts while it is written. A task has a file open for each table and part of one, so what
# each of them may hold is little: a part that fills (S3 takes none smaller), and those that are on their way.
_PART_BYTES, _PARTS_ON_THE_WAY = 5 << 20, 1
_TRIES = 50
# Who is away for longer is away: the pipeline is tried again after a pause, and commands say so.
_RETRIES, _RETRY_SECONDS = 4, 20
_OPTIONS: Mapping[str, str] | None = {
    "conditional_put": "etag",
    "max_retries": str(_RETRIES),
    "retry_timeout": f"{_RETRY_SECONDS}s",
}
_GONE = re.compile(r"NoSuchBucket")
_REFUSED = re.compile(
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|PermissionDenied|"
    r"Unauthenticated|lacked the privileges|missing or invalid credentials|"
    r"\b40[13] (?:Forbidden|Unauthorized)",
    re.IGNORECASE,
)
_AWAY = re.compile(
    r"Generic S3 error|error sending request|connection|timed? ?out|SlowDown|Error after \d+ retries|"
    r"\b50\d (?:Internal|Bad|Service|Gateway)",
    re.IGNORECASE,
)


class ObjectFigures(NamedTuple):
    """What is known of an object, by the names that a file's figures have."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True, order=True, slots=True)
class BucketPath:
    """An object of a bucket, or what keys begin with: a folder is there as long as something is in it."""

    bucket: str
    key: str = ""

    @classmethod
    def parse(cls, address: str) -> "BucketPath":
        """Return what an address names."""
        bucket, _, key = address.removeprefix(_SCHEME).partition("/")
        return cls(bucket, "/".join(part for part in key.split("/") if part not in ("", ".")))

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.key}" if self.key else f"{_SCHEME}{self.bucket}"

    def __truediv__(self, name: str) -> "BucketPath":
        return BucketPath.parse(f"{self}/{name}")

    @property
    def name(self) -> str:
        """The last part of the key; of a whole bucket: its name."""
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def parent(self) -> "BucketPath":
        """What it is in."""
        return BucketPath(self.bucket, self.key.rpartition("/")[0])

    def absolute(self) -> "BucketPath":
        """Return itself."""
        return self

    def exists(self) -> bool:
        """Return whether there is such an object, or are objects below."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Return whether there is such an object."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Return whether there are objects below."""
        with _asking(self):
            return any(self._store.list(self.key or None, chunk_size=1))

    def iterdir(self) -> Iterator["BucketPath"]:
        """Yield the objects and folders directly below."""
        with _asking(self):
            found = self._store.list_with_delimiter(self.key or None)
        keys = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        yield from (BucketPath(self.bucket, key) for key in keys)

    def glob(self, pattern: str) -> Iterator["BucketPath"]:
        """Yield what is directly below and has such a name."""
        return (each for each in self.iterdir() if fnmatchcase(each.name, pattern))

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a folder comes with what is in it."""

    def read_bytes(self) -> bytes:
        """Return the content. Raises FileNotFoundError."""
        return self.read()[0]

    def read(self) -> tuple[bytes, str | None]:
        """Return the content, and the tag that changes with it. Raises FileNotFoundError."""
        with _asking(self):
            found = self._store.get(self.key)
            return found.bytes().to_bytes(), found.meta["e_tag"]

    def stat(self) -> ObjectFigures:
        """Return size and age. Raises FileNotFoundError."""
        with _asking(self):
            found = self._store.head(self.key)
        return ObjectFigures(found["size"], found["last_modified"].timestamp())

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object; one that is not there is gone, whatever was asked."""
        with _asking(self):
            self._store.delete(self.key)

    @property
    def _store(self) -> S3Store:
        return store_of(self.bucket)


class BucketStorage(Storage[BucketPath]):
    """Objects in buckets. Spark's checkpoint is elsewhere: its files are renamed, which objects cannot be."""

    keeps_checkpoints = keeps_catalogs = False
    settles_late = True  # a put may be on its way when its connection is given up
    delta_options = _OPTIONS  # where and as whom to ask, delta-rs reads from the environment
    # pyiceberg's own ways to a bucket read other variables, and repeat what a store answers.
    iceberg_options: Mapping[str, str] = {"py-io-impl": "penstock.pipeline.iceberg.bucket_io.BucketIO"}

    def check(self, option: str, path: BucketPath) -> None:
        """Ask for the bucket. Raises BucketMissing, StorageRefused, StorageAway, InvalidOption."""
        if not path.key:
            raise InvalidOption(option, str(path), f"a folder in the bucket: {path}/lake")
        try:
            path.is_dir()
        except FileNotFoundError:
            raise BucketMissing(path.bucket) from None

    @contextmanager
    def asking(self, path: BucketPath) -> Iterator[None]:
        """Say in our words what the store answers, to us or to delta-rs."""
        try:
            yield
        except (BaseError, DeltaError, OSError) as exc:  # a commit may fail because the store is away
            known = _known(exc, path.bucket)
            if known is None:
                raise
            raise known from None

    def told(self, error: Exception) -> str:
        """Return our own words, those of Arrow about what is in a file, or else only of which kind it is."""
        of_content = isinstance(error, pa.ArrowException) and not isinstance(error, OSError)
        if isinstance(error, Error) or of_content:
            return str(error).partition("\n")[0]
        return "a file is not there" if isinstance(error, FileNotFoundError) else type(error).__name__

    def begin(self, file: BucketPath) -> IO[bytes]:
        """Begin an upload; there is no object before it is closed."""
        with _asking(file):
            writer = obstore.open_writer(
                store_of(file.bucket),
                file.key,
                buffer_size=_PART_BYTES,
                max_concurrency=_PARTS_ON_THE_WAY,
            )
        return cast(IO[bytes], _Upload(file, writer))

    def abandon(self, file: BucketPath, sink: IO[bytes]) -> None:
        """Leave an upload, or delete the object if it was finished; if that fails, it is left to `vacuum`."""
        upload = cast(_Upload, sink)
        if upload.closed and not upload.given_up:
            with suppress(Error):
                file.unlink()
        upload.closed = upload.given_up = True

    def bring_to_disk(self, *files: BucketPath) -> None:
        """Do nothing: an object lasts when its put is answered."""

    def put_new(self, file: BucketPath, content: bytes) -> None:
        """Put an object if there is none (`If-None-Match: *`)."""
        self._put_after(file, content, None)

    def check_lock(self, option: str, folder: BucketPath) -> None:
        """Put an object twice, where there is none. Raises InvalidOption if both puts succeed."""
        file = folder / f"try-{uuid4()}"
        try:
            self.put_new(file, b"")
            with suppress(FileExistsError):
                self.put_new(file, b"")
                wanted = "in a store that honours If-None-Match, as the lock of a commit; this one does not"
                raise InvalidOption(option, str(folder.parent), wanted)
        finally:
            file.unlink()

    def replace(self, file: BucketPath, content: bytes) -> None:
        """Put an object."""
        with _asking(file):
            store_of(file.bucket).put(file.key, content, use_multipart=False)

    def update(self, file: BucketPath, change: TextChange) -> None:
        """Put an object if nobody else did since it was read (`If-Match`); else look again."""
        for _ in range(_TRIES):
            found: bytes | None = None
            tag: str | None = None
            with suppress(FileNotFoundError):
                found, tag = file.read()
            content = change(found)
            if content is None:
                return
            try:
                self._put_after(file, content, tag)
            except FileExistsError:
                continue
            return
        raise PipelineFailed(f"{file} was changed by others {_TRIES} times; let one driver run")

    def _put_after(self, file: BucketPath, content: bytes, tag: str | None) -> None:
        with _asking(file):
            mode: Any = "create" if tag is None else {"e_tag": tag}
            store_of(file.bucket).put(file.key, content, mode=mode, use_multipart=False)

    def copy(self, file: BucketPath, target: BucketPath) -> None:
        """Let the store copy an object."""
        with _asking(file):
            store_of(file.bucket).copy(file.key, target.key)

    def remove(self, path: BucketPath) -> None:
        """Delete an object, and all that is below."""
        with _asking(path):
            store = store_of(path.bucket)
            for chunk in store.list(path.key, chunk_size=1000):
                store.delete([each["path"] for each in chunk])
            store.delete(path.key)

    def files_below(self, path: BucketPath) -> Iterator[BucketPath]:
        """Yield the objects below."""
        with _asking(path):
            for chunk in store_of(path.bucket).list(path.key, chunk_size=1000):
                yield from (BucketPath(path.bucket, each["path"]) for each in chunk)

    def parquet(self, file: BucketPath) -> Any:
        """Open a Parquet object; only what is asked for is fetched."""
        return pq.ParquetFile(self.opened(file))

    def opened(self, file: BucketPath) -> pa.PythonFile:
        """Open an object to read; only what is asked for is fetched. Raises FileNotFoundError."""
        return pa.PythonFile(_Download(file), mode="r")


class _Upload:
    """A file of Python's kind that becomes an object when it is closed."""

    def __init__(self, file: BucketPath, writer: Any) -> None:
        self._file, self._writer = file, writer
        self.closed = self.given_up = False

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        with _asking(self._file):
            for start in range(0, size, _PART_BYTES):  # each waits until a part may be sent
                self._writer.write(memoryview(content).cast("B")[start : start + _PART_BYTES])
        return size

    def flush(self) -> None:
        """Do nothing: parts are sent when they are full."""

    def close(self) -> None:
        if not self.closed:
            with _asking(self._file):
                self._writer.close()
            self.closed = True


class _Download:
    """A file of Python's kind that fetches the parts of an object which are read."""

    def __init__(self, file: BucketPath) -> None:
        self._file, self._size, self._at = file, file.stat().st_size, 0
        self.closed = False

    def writable(self) -> bool:
        return False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        length = left if count < 0 else min(count, left)
        if not length:
            return b""
        with _asking(self._file):
            found = store_of(self._file.bucket).get_range(self._file.key, start=self._at, length=length)
        self._at += length
        return found.to_bytes()

    def close(self) -> None:
        self.closed = True


BUCKETS = BucketStorage()


def store_of(bucket: str) -> S3Store:
    """Return the store of a bucket, as the environment says now."""
    return _store(bucket, tuple(sorted(each for each in os.environ.items() if each[0].startswith("AWS_"))))


@lru_cache(maxsize=8)
def _store(bucket: str, environment: tuple[tuple[str, str], ...]) -> S3Store:
    return S3Store(
        bucket,
        config={"conditional_put": "etag"},
        retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
    )


@contextmanager
def _asking(path: BucketPath) -> Iterator[None]:
    """Say what obstore raises as Python does of files, or in our words."""
    try:
        yield
    except (AlreadyExistsError, PreconditionError):
        raise FileExistsError(f"{path} is there already") from None
    except NotFoundError as exc:
        if _GONE.search(str(exc)):
            raise BucketMissing(path.bucket) from None
        raise FileNotFoundError(f"{path} is not there") from None
    except BaseError as exc:
        raise _known(exc, path.bucket) or StorageAway(path.bucket, "it gave no answer of use") from None


def _known(error: Exception, bucket: str) -> Error | None:
    """Return what a library's error means, if it is about the store and not about a file."""
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, (FileNotFoundError, FileExistsError)):
        return None
    if _GONE.search(said):
        return BucketMissing(bucket)
    if _REFUSED.search(said):
        return StorageRefused(bucket)
    return StorageAway(bucket) if _AWAY.search(said) else None
