"""The folder of a lake as a command's argument: a path, or a URL such as `s3://bucket/lake`."""

from typing import Any

import click


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
