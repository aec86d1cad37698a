"""The files of an Iceberg table: those it needs, their columns in Arrow, and the joining of small ones."""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Loaded
from pyiceberg.table.snapshots import Snapshot

from ..contract import TableFile
from ..data_files import OpenFile, Rewritten, fitting, plain_field, rows_of
from ..storage import Location, location


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
    found = schema_to_pyarrow(schema, include_field_ids=False)
    return pa.schema([plain_field(each, nullable=True) for each in found])


def kept(schema: pa.Schema) -> pa.Schema:
    """Return the columns that an Iceberg table has for a schema: it has no integers of 8 or 16 bits."""
    return arrow_of(Catalog._convert_schema_if_needed(schema))


def joined(path: Location, schema: pa.Schema, parts: Sequence[Sequence[TableFile]], file_bytes: int) -> Rewritten:
    """Join the files of each partition into files of about a size; no commit."""
    with Rewritten() as done:
        for names in (names for files in parts for names in _bins(files, file_bytes)):
            with OpenFile(path, schema) as file:
                for batch in rows_of(path / name for name in names):
                    for rows in fitting(pa.Table.from_batches([batch]), schema).to_batches():
                        file.add(rows)
                done.added.append(file.finish())
            done.removed += names
    return done


def _bins(files: Sequence[TableFile], file_bytes: int) -> list[list[str]]:
    bins, size = list[list[str]](), file_bytes
    for each in files:
        if size + each.size > file_bytes:
            bins.append([])
            size = 0
        bins[-1].append(each.name)
        size += each.size
    return [names for names in bins if len(names) > 1]
