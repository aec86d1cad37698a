"""Lakes in buckets of an S3 object store, reached through obstore, which is the client of delta-rs, too.

Endpoint, region and credentials come from the environment of each process (`AWS_ENDPOINT_URL`, `AWS_REGION`,
`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ALLOW_HTTP`, …), or from the machine's role: jobs sent to
executors contain none of them. A store's answer may quote the request, so it is not passed on.

An object appears as a whole, and is durable once its put is answered. Conditional puts (`If-None-Match`,
`If-Match`) replace the lock that a disk offers: of several writers, one succeeds. A put whose answer is lost
may have taken effect, and then its repetition is refused; a refused writer reads the object again.
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

from .contract import Location, Storage, TextChange

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
# A file is sent in parts while it is written. A task has one file open per table and partition, so each may
# buffer little: the part that is filling (S3 takes none smaller), and the parts in flight.
_PART_BYTES, _PARTS_ON_THE_WAY = 5 << 20, 1
_TRIES = 50
# A store that is unreachable for longer counts as away: pipelines retry after a pause, commands report it.
_RETRIES, _RETRY_SECONDS = 4, 20
_OPTIONS: dict[str, str] | None = {
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
    """Size and age of an object, under the names that `os.stat_result` uses."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True, slots=True)
class BucketPath(Location):
    """An object of a bucket, or a prefix of keys: a folder exists as long as an object is in it."""

    bucket: str
    key: str = ""

    @classmethod
    def parse(cls, address: str) -> "BucketPath":
        """Return the path that an address names."""
        bucket, _, key = address.removeprefix(_SCHEME).partition("/")
        return cls(bucket, "/".join(part for part in key.split("/") if part not in ("", ".")))

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bucket}/{self.key}" if self.key else f"{_SCHEME}{self.bucket}"

    def __lt__(self, other: "BucketPath") -> bool:
        return (self.bucket, self.key) < (other.bucket, other.key)

    def __truediv__(self, name: str) -> "BucketPath":
        return BucketPath.parse(f"{self}/{name}")

    @property
    def name(self) -> str:
        """The last part of the key; of a whole bucket: its name."""
        return self.key.rpartition("/")[2] or self.bucket

    @property
    def parent(self) -> "BucketPath":
        return BucketPath(self.bucket, self.key.rpartition("/")[0])

    def absolute(self) -> "BucketPath":
        return self

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        with suppress(FileNotFoundError):
            self.stat()
            return True
        return False

    def is_dir(self) -> bool:
        with _asking(self):
            return any(self._store.list(self.key or None, chunk_size=1))

    def iterdir(self) -> Iterator["BucketPath"]:
        with _asking(self):
            found = self._store.list_with_delimiter(self.key or None)
        keys = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        yield from (BucketPath(self.bucket, key) for key in keys)

    def glob(self, pattern: str) -> Iterator["BucketPath"]:
        return (each for each in self.iterdir() if fnmatchcase(each.name, pattern))

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a folder appears with its first object."""

    def read_bytes(self) -> bytes:
        return self.read()[0]

    def read(self) -> tuple[bytes, str | None]:
        """Return the content, and the tag that changes with it. Raises FileNotFoundError."""
        with _asking(self):
            found = self._store.get(self.key)
            return found.bytes().to_bytes(), found.meta["e_tag"]

    def stat(self) -> ObjectFigures:
        with _asking(self):
            found = self._store.head(self.key)
        return ObjectFigures(found["size"], found["last_modified"].timestamp())

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object; a missing one is not an error, whatever `missing_ok` says."""
        with _asking(self):
            self._store.delete(self.key)

    @property
    def _store(self) -> S3Store:
        return store_of(self.bucket)


class BucketStorage(Storage[BucketPath]):
    """Objects in buckets. Spark's checkpoint is kept elsewhere: it needs a rename, which objects lack."""

    keeps_checkpoints = keeps_catalogs = False
    settles_late = True  # a put may be in flight when its connection is given up
    delta_options = _OPTIONS  # delta-rs reads endpoint and credentials from the environment
    # pyiceberg's own bucket clients read other variables, and repeat the store's answers.
    iceberg_options: Mapping[str, str] = {"py-io-impl": "penstock.pipeline.lake.iceberg.bucket_io.BucketIO"}

    def check(self, option: str, path: BucketPath) -> None:
        if not path.key:
            raise InvalidOption(option, str(path), f"a folder in the bucket: {path}/lake")
        try:
            path.is_dir()
        except FileNotFoundError:
            raise BucketMissing(path.bucket) from None

    @contextmanager
    def asking(self, path: BucketPath) -> Iterator[None]:
        try:
            yield
        except (BaseError, DeltaError, OSError) as exc:  # a commit may fail because the store is away
            known = _known(exc, path.bucket)
            if known is None:
                raise
            raise known from None

    def public_text(self, error: Exception) -> str:
        """Return the text of our own errors and of Arrow's about file contents; of others, only the kind."""
        of_content = isinstance(error, pa.ArrowException) and not isinstance(error, OSError)
        if isinstance(error, Error) or of_content:
            return str(error).partition("\n")[0]
        return "a file is not there" if isinstance(error, FileNotFoundError) else type(error).__name__

    def begin(self, file: BucketPath) -> IO[bytes]:
        """Begin an upload; there is no object before it is closed."""
        with _asking(file):
            store, parts = store_of(file.bucket), _PARTS_ON_THE_WAY
            writer = obstore.open_writer(store, file.key, buffer_size=_PART_BYTES, max_concurrency=parts)
        return cast(IO[bytes], _Upload(file, writer))

    def abandon(self, file: BucketPath, sink: IO[bytes]) -> None:
        """Abandon an upload, or delete the finished object; if that fails, `vacuum` removes it."""
        upload = cast(_Upload, sink)
        if upload.closed and not upload.given_up:
            with suppress(Error):
                file.unlink()
        upload.closed = upload.given_up = True

    def bring_to_disk(self, *files: BucketPath) -> None:
        """Do nothing: an object is durable once its put is answered."""

    def put_new(self, file: BucketPath, content: bytes) -> None:
        """Put an object unless it exists (`If-None-Match: *`)."""
        self._put(file, content, "create")

    def check_lock(self, option: str, folder: BucketPath) -> None:
        """Put a new object twice. Raises InvalidOption if both puts succeed."""
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
        self._put(file, content, "overwrite")

    def update(self, file: BucketPath, change: TextChange) -> None:
        """Put an object unless it changed since it was read (`If-Match`); else read it and try again."""
        for _ in range(_TRIES):
            found: bytes | None = None
            tag: str | None = None
            with suppress(FileNotFoundError):
                found, tag = file.read()
            content = change(found)
            if content is None:
                return
            with suppress(FileExistsError):
                self._put(file, content, "create" if tag is None else {"e_tag": tag})
                return
        raise PipelineFailed(f"{file} was changed by others {_TRIES} times; let one driver run")

    def _put(self, file: BucketPath, content: bytes, mode: Any) -> None:
        with _asking(file):
            store_of(file.bucket).put(file.key, content, mode=mode, use_multipart=False)

    def copy(self, file: BucketPath, target: BucketPath) -> None:
        with _asking(file):
            store_of(file.bucket).copy(file.key, target.key)

    def remove(self, path: BucketPath) -> None:
        with _asking(path):
            store = store_of(path.bucket)
            for chunk in store.list(path.key, chunk_size=1000):
                store.delete([each["path"] for each in chunk])
            store.delete(path.key)

    def files_below(self, path: BucketPath) -> Iterator[BucketPath]:
        with _asking(path):
            for chunk in store_of(path.bucket).list(path.key, chunk_size=1000):
                yield from (BucketPath(path.bucket, each["path"]) for each in chunk)

    def parquet(self, file: BucketPath) -> Any:
        return pq.ParquetFile(self.opened(file))

    def opened(self, file: BucketPath) -> pa.PythonFile:
        """Open an object to read; only the ranges that are read are fetched. Raises FileNotFoundError."""
        return pa.PythonFile(_Download(file), mode="r")


class _Stream:
    """A Python file object, as Arrow asks for it: for writing, unless it can be read anywhere."""

    closed, reads = False, False

    def writable(self) -> bool:
        return not self.reads

    def readable(self) -> bool:
        return self.reads

    seekable = readable


class _Upload(_Stream):
    """A file object whose content becomes an object when it is closed."""

    def __init__(self, file: BucketPath, writer: Any) -> None:
        self._file, self._writer, self.given_up = file, writer, False

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        with _asking(self._file):
            for start in range(0, size, _PART_BYTES):  # each write waits until a part may be sent
                self._writer.write(memoryview(content).cast("B")[start : start + _PART_BYTES])
        return size

    def flush(self) -> None:
        """Do nothing: parts are sent when they are full."""

    def close(self) -> None:
        if not self.closed:
            with _asking(self._file):
                self._writer.close()
            self.closed = True


class _Download(_Stream):
    """A file object that fetches only the ranges of an object that are read."""

    reads = True

    def __init__(self, file: BucketPath) -> None:
        self._file, self._size, self._at = file, file.stat().st_size, 0

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
    """Return the store of a bucket, as the environment configures it now."""
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
    """Translate obstore's errors into Python's file errors, or into our own."""
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
    """Return our error for a library's error, if it is about the store and not about a file."""
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, (FileNotFoundError, FileExistsError)):
        return None
    if _GONE.search(said):
        return BucketMissing(bucket)
    if _REFUSED.search(said):
        return StorageRefused(bucket)
    return StorageAway(bucket) if _AWAY.search(said) else None
