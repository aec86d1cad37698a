"""Joins small files of a table, within each partition, a bounded number of rows at a time."""

from collections.abc import Sequence

import pyarrow as pa

from ..data_files import OpenFile
from ..file_rows import file_rows
from ..rewriting import Rewritten, fitting
from ..storage import Location, storage_of


def joined(
    path: Location, schema: pa.Schema, parts: Sequence[Sequence[tuple[str, int]]], file_bytes: int
) -> Rewritten:
    """Join the files of each partition, given by name and bytes, into files of about a size; no commit."""
    done = Rewritten()
    try:
        for files in parts:
            for names in _bins(files, file_bytes):
                file = _one(path, schema, names)
                done.added.append(({}, file.finish()))
                done.removed += names
    except BaseException:
        done.abandon()
        raise
    return done


def _bins(files: Sequence[tuple[str, int]], file_bytes: int) -> list[list[str]]:
    bins, size = list[list[str]](), file_bytes
    for name, bytes_ in files:
        if size + bytes_ > file_bytes:
            bins.append([])
            size = 0
        bins[-1].append(name)
        size += bytes_
    return [names for names in bins if len(names) > 1]


def _one(path: Location, schema: pa.Schema, names: Sequence[str]) -> OpenFile:
    file = OpenFile(path, schema)
    try:
        for name in names:
            with storage_of(path).parquet(path / name) as source:
                for batch in file_rows(source):
                    for rows in fitting(pa.Table.from_batches([batch]), schema).to_batches():
                        file.add(rows)
    except BaseException:
        file.abandon()
        raise
    return file
