"""The lake for a console: its tables, and whether they agree with the log."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.clock import from_ms
from penstock.console.lake import LakeTableShown
from penstock.errors import MissingExtra
from penstock.log.store import Store
from penstock.operate.reconcile import Reconciliation, reconcile

from .reconcile import lake_tables

if TYPE_CHECKING:
    from penstock.pipeline.lake.storage import Location


class FolderLake:
    """A folder of tables. Raises MissingExtra."""

    def __init__(self, store: Store, folder: "Location") -> None:
        try:
            from penstock.pipeline.lake import tables
        except ImportError as exc:
            raise MissingExtra("--lake", "spark") from exc
        self._tables, self._store, self._folder = tables, store, folder.absolute()

    @property
    def path(self) -> str:
        """The lake's path."""
        return str(self._folder)

    def tables(self) -> Sequence[LakeTableShown]:
        """Return its tables."""
        last = {each.table: each for each in reversed(self._tables.history(self._folder, limit=1))}
        return [
            LakeTableShown(
                each.name,
                each.size.rows,
                each.size.files,
                each.size.bytes,
                each.size.version,
                from_ms(last[each.name].at_ms) if each.name in last else None,
                {source.topic: sum(source.ends.values()) for source in each.sources},
            )
            for each in self._tables.describe(self._folder)
        ]

    def reconcile(self, topic: str) -> Reconciliation:
        """Compare a topic, its groups and the tables; reads every offset of both, but no values."""
        found = lake_tables(self._store, self._folder, topic, values=False)
        return reconcile(self._store, topic, tables=found)
