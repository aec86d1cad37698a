"""Lakes in folders of a file system, which the driver and all executors see.

A file is on the disk when its bytes and its name are, so its folder is synced, too: after a power cut nothing
may point to a missing file.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from penstock.errors import InvalidOption

from .contract import Storage, TextChange


def sync(path: Path) -> None:
    """Sync a file's bytes, or a folder's names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class LocalStorage(Storage[Path]):
    """Files on disks. A new file is written under another name, and renamed once it is on the disk."""

    keeps_checkpoints = keeps_catalogs = True
    settles_late = False
    delta_options = None
    iceberg_options: Mapping[str, str] = {}

    def check(self, option: str, path: Path) -> None:
        there = next(each for each in (path, *path.parents) if os.path.exists(each))
        if not there.is_dir():
            raise InvalidOption(option, str(path), f"a folder, or one to be made; {there} is a file")

    def asking(self, path: Path) -> nullcontext[None]:
        """Leave errors as they are: they name the file."""
        return nullcontext()

    def public_text(self, error: Exception) -> str:
        return str(error).partition("\n")[0] or type(error).__name__

    def begin(self, file: Path) -> IO[bytes]:
        file.parent.mkdir(parents=True, exist_ok=True)
        return file.open("wb")

    def abandon(self, file: Path, sink: IO[bytes]) -> None:
        sink.close()
        file.unlink(missing_ok=True)

    def bring_to_disk(self, *files: Path) -> None:
        """Sync files, then their folders; a folder that may not be opened is skipped."""
        there = [each for each in files if each.exists()]
        for file in there:
            sync(file)
        for folder in dict.fromkeys(file.parent for file in there):
            with suppress(PermissionError):
                sync(folder)

    def put_new(self, file: Path, content: bytes) -> None:
        """Create a file by a link, which fails if the name exists."""
        new = file.with_name(f"_commit_{uuid4()}.json.tmp")  # as delta-rs names them; readers skip it
        try:
            new.write_bytes(content)
            sync(new)
            os.link(new, file)
        finally:
            with suppress(OSError):
                new.unlink()
        sync(file.parent)

    def check_lock(self, option: str, folder: Path) -> None:
        """Do nothing: a link never replaces a file."""

    def replace(self, file: Path, content: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{uuid4().hex}.new")
        new.write_bytes(content)
        sync(new)
        new.replace(file)
        self.bring_to_disk(file, file.parent)  # the folder may be new

    def update(self, file: Path, change: TextChange) -> None:
        """Create a file, where one of several writers succeeds, or replace it: the last writer wins."""
        with suppress(FileExistsError):
            if not file.exists():
                content = change(None)
                if content is not None:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    self.put_new(file, content)
                    self.bring_to_disk(file, file.parent)  # the folder may be new
                return
        content = change(file.read_bytes())
        if content is not None:
            self.replace(file, content)

    def copy(self, file: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, target)
        except FileExistsError:
            return
        except OSError:
            shutil.copyfile(file, target)

    def remove(self, path: Path) -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def files_below(self, path: Path) -> Iterator[Path]:
        return (each for each in path.rglob("*") if each.is_file())

    def parquet(self, file: Path) -> Any:
        from pyarrow.parquet import ParquetFile

        return ParquetFile(file)


LOCAL = LocalStorage()
