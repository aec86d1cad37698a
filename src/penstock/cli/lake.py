"""A lake as a command's argument, its tables for `reconcile`, and its view for a console."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from penstock.clock import from_ms
from penstock.console.lake import LakeTableShown
from penstock.errors import MissingExtra
from penstock.log.store import Store
from penstock.operate.reconcile import Reconciliation, TableFigures, reconcile

if TYPE_CHECKING:
    from penstock.pipeline.lake.storage import Location


class LakePath(click.Path):
    """A path, checked by click, or a URL, checked by the pipelines. Raises what `table_path` raises."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the location."""
        if not isinstance(value, str) or "://" not in value:
            return super().convert(value, param, ctx)
        from penstock.pipeline.lake.paths import table_path

        found = table_path(param.opts[0] if param else "path", value)
        if self.exists and not found.exists():
            self.fail(f"{value} does not exist", param, ctx)
        return found


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


def lake_tables(store: Store, lake: "Location | None", topic: str, *, values: bool) -> list[TableFigures]:
    """Return the figures of a topic in the tables of a lake; none without a lake."""
    if lake is None:
        return []
    from penstock.pipeline.lake.reconcile.figures import lake_figures

    found = lake_figures(lake.absolute(), store.log, topic, values=values)
    return [
        TableFigures("table", each.rows, each.held, each.changed, each.faults, each.superseded, notes=each.notes)
        for each in found
    ]
