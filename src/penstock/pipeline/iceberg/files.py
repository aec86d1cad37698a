"""Which files an Iceberg table needs: those that its snapshots point to, and its own descriptions."""

from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from penstock.errors import MissingExtra

try:
    from pyiceberg.table import Table as Loaded
    from pyiceberg.table.snapshots import Snapshot
except ImportError as exc:
    raise MissingExtra("a lake of Iceberg tables", "iceberg") from exc


def local(location: str) -> Path:
    """Return the path of a file:// address, or of a path."""
    return Path(urlsplit(location).path) if location.startswith("file:") else Path(location)


def metadata_files(table: Loaded, snapshot: Snapshot) -> Iterator[Path]:
    """Yield the files that describe a snapshot."""
    yield local(snapshot.manifest_list)
    for manifest in snapshot.manifests(table.io):
        yield local(manifest.manifest_path)


def needed(table: Loaded, snapshots: Collection[Snapshot]) -> set[Path]:
    """Return all files that a table with these snapshots needs."""
    found = {local(table.metadata_location)}
    found |= {local(each.metadata_file) for each in table.metadata.metadata_log}
    seen = set[str]()
    for snapshot in snapshots:
        found.update(metadata_files(table, snapshot))
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found.update(local(entry.data_file.file_path) for entry in entries)
    return found
