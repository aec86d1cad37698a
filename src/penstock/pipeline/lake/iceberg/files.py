"""Lists the files that an Iceberg table needs: those that its snapshots point to, and its own metadata."""

from collections.abc import Collection, Iterator

from pyiceberg.table import Table as Loaded
from pyiceberg.table.snapshots import Snapshot

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
