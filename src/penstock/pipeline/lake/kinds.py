"""Chooses the kind of table for a folder: Iceberg where a catalog is named beside it, else Delta."""

import pyarrow as pa

from .contract import NO_TEXTS, Table, Texts, Titles
from .delta.table import LakeTable
from .paths import catalog_root, is_delta
from .storage import Location

DELTA, ICEBERG = "delta", "iceberg"


def table_at(path: Location) -> Table:
    """Return the table at a path."""
    return kind_of(path)(path)


def opened(path: Location, schema: pa.Schema, properties: Texts = NO_TEXTS, partition_by: Titles = ()) -> Table:
    """Return the table at a path, made with these columns if there is none."""
    return kind_of(path).opened(path, schema, properties, partition_by)


def kind_of(path: Location) -> type[Table]:
    """Return the kind of table of a folder, or for a new one."""
    if is_delta(path) or catalog_root(path) is None:  # in this order: fewer requests to a bucket
        return LakeTable
    from .iceberg.table import IcebergTable

    return IcebergTable
