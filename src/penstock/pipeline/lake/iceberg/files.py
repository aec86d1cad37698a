"""The files of an Iceberg table: those it needs, their columns in Arrow, and the joining of small ones."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from deltalake import Schema as DeltaSchema
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Loaded
from pyiceberg.table.snapshots import Snapshot

from ..data_files import OpenFile, Rewritten, file_rows, fitting
from ..storage import Location, location, storage_of


def at(address: str) -> Location:
    """Return the location of an address in a table."""
    return location(address.removeprefix("file://"))


def address_of(path: Location) -> str:
    """Return the address that tables use for a location."""
    return str(path) if "://" in str(path) else f"file://{path}"


def metadata_files(table: Loaded, snapshot: Snapshot) -> Iterator[Location]:
    """Yield the metadata files of a snapshot."""
    yield at(snapshot.manifest_list)
    for manifest in snapshot.manifests(table.io):
        yield at(manifest.manifest_path)


def needed(table: Loaded, snapshots: Collection[Snapshot]) -> set[Location]:
    """Return all files that a table with these snapshots needs."""
    found = {at(table.metadata_location)}
    found |= {at(each.metadata_file) for each in table.metadata.metadata_log}
    seen = set[str]()
    for snapshot in snapshots:
        found.update(metadata_files(table, snapshot))
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found.update(at(entry.data_file.file_path) for entry in entries)
    return found


def arrow_of(schema: Schema) -> pa.Schema:
    """Return columns as an Arrow schema, without large types and without ids, which our files lack."""
    return pa.schema([_plain(each) for each in schema_to_pyarrow(schema, include_field_ids=False)])


def form_of(schema: pa.Schema) -> dict[str, Any]:
    """Return columns in Delta's form, in which all tables are compared."""
    form: dict[str, Any] = msgspec.json.decode(DeltaSchema.from_arrow(schema).to_json())
    return form


def kept(schema: pa.Schema) -> pa.Schema:
    """Return the columns that an Iceberg table has for a schema: it has no integers of 8 or 16 bits."""
    return arrow_of(Catalog._convert_schema_if_needed(schema))


def _plain(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain_type(field.type), nullable=True)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([_plain(kind.field(number)) for number in range(kind.num_fields)])
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    return kind


def joined(path: Location, schema: pa.Schema, parts: Sequence[Sequence[tuple[str, int]]], file_bytes: int) -> Rewritten:
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
