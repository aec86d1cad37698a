"""pyiceberg's access to the files of tables in a bucket, through the store that tasks and commands use.

So one set of variables or a role gives endpoint and credentials, and the store's errors become our own. An object that
must be new is put with `If-None-Match`. Credentials of a REST catalog are not used: tasks never see the catalog.
"""

from io import BytesIO
from typing import Any, cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from ..storage.bucket import BUCKETS, BucketPath

_IN_PARTS = ".parquet"


class BucketIO(FileIO):
    """Reads and writes objects for pyiceberg, which makes one for each table."""

    def new_input(self, location: str) -> "BucketFile":
        """Return an object to read."""
        return BucketFile(location)

    def new_output(self, location: str) -> "BucketFile":
        """Return an object to write."""
        return BucketFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete an object; a missing one is not an error."""
        BucketPath.parse(location if isinstance(location, str) else location.location).unlink()


class BucketFile(InputFile, OutputFile):
    """One object, to read or to write."""

    @property
    def _path(self) -> BucketPath:
        return BucketPath.parse(self.location)

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        """Return whether the object exists."""
        return self._path.is_file()

    def open(self, seekable: bool = True) -> InputStream:
        """Open it: a data file by the ranges that are read, a metadata file as a whole. Raises FileNotFoundError."""
        path = self._path
        return cast(InputStream, BUCKETS.opened(path) if path.name.endswith(_IN_PARTS) else BytesIO(path.read_bytes()))

    def to_input_file(self) -> "BucketFile":
        """Return the object to read."""
        return self

    def create(self, overwrite: bool = False) -> OutputStream:
        """Begin it. Without `overwrite`, closing it raises FileExistsError if the object exists by then."""
        return _Description(self._path, overwrite)


class _Description(OutputStream):
    """A metadata file that becomes an object when it is closed, unless an error came first."""

    def __init__(self, path: BucketPath, overwrite: bool) -> None:
        self._path, self._put = path, BUCKETS.replace if overwrite else BUCKETS.put_new
        self._content, self._closed = BytesIO(), False

    def write(self, b: bytes) -> int:
        return self._content.write(b)

    def tell(self) -> int:
        return self._content.tell()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._put(self._path, self._content.getvalue())

    def __enter__(self) -> "_Description":
        return self

    def __exit__(self, kind: Any, error: Any, at: Any) -> None:
        self._closed = self._closed or kind is not None
        self.close()
