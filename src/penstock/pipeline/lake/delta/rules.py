"""The rules of a Delta table, as its log has them; a table that requires more is refused.

| set by others                            | treatment here                                             |
|------------------------------------------|------------------------------------------------------------|
| `delta.constraints.NAME`, `delta.invariants` | a condition that must be true of each row; NULL is not |
| NOT NULL                                 | a column that is never NULL                                |
| a generated, identity or default value   | refused: only an engine that knows the expression can fill it |
| column mapping                           | refused: files have other names for their columns          |
| append only, change data feed, deletion vectors | refused where files are rewritten, as upserts do    |
| other features of a writer               | refused                                                    |
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from penstock.errors import TableAsksMore

from .log import Protocol

_CHECK = "delta.constraints."
_NAMED = 7  # from this writer version on, features have names
_HEEDED = {
    "appendOnly",
    "invariants",
    "checkConstraints",
    "changeDataFeed",
    "generatedColumns",
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "v2Checkpoint",
    "variantType",
}
_FILLED_BY_OTHERS = {
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "CURRENT_DEFAULT": "a column with a default",
}
_NOT_REWRITTEN = {
    "delta.appendOnly": "is append only",
    "delta.enableChangeDataFeed": "keeps a change data feed",
}


class TableRules(msgspec.Struct, frozen=True):
    """`checks`: conditions in SQL, by name. `filled`: columns that are never NULL."""

    checks: dict[str, str] = {}
    filled: tuple[str, ...] = ()

    def said(self) -> str:
        """Return them in words."""
        said = [f"{name} CHECK ({sql})" for name, sql in self.checks.items()]
        return ", ".join((*said, *(f"{name} NOT NULL" for name in self.filled))) or "none now"


def delta_rules(
    path: str,
    form: Mapping[str, Any],
    protocol: Protocol,
    configuration: Mapping[str, str | None],
    *,
    rewrites: bool,
) -> TableRules:
    """Return the rules of a table with these columns. `rewrites`: whether files are rewritten.

    Raises TableAsksMore.
    """
    for what in _unheeded(form, protocol, configuration, rewrites=rewrites):
        raise TableAsksMore(path, what)
    checks = {
        name.removeprefix(_CHECK): sql
        for name, sql in configuration.items()
        if name.startswith(_CHECK) and sql is not None
    }
    for each in form["fields"]:
        if "delta.invariants" in each["metadata"]:
            said = msgspec.json.decode(each["metadata"]["delta.invariants"])
            checks[each["name"]] = said["expression"]["expression"]
    return TableRules(checks, tuple(each["name"] for each in form["fields"] if not each["nullable"]))


def _unheeded(
    form: Mapping[str, Any],
    protocol: Protocol,
    configuration: Mapping[str, str | None],
    *,
    rewrites: bool,
) -> Iterator[str]:
    features = sorted({*(protocol.writerFeatures or ())} - _HEEDED)
    if protocol.minWriterVersion > _NAMED or features:
        named = ", ".join(features) or f"version {protocol.minWriterVersion}"
        yield f"what this writer does not know of Delta's protocol ({named})"
    for each in form["fields"]:
        for name, what in _FILLED_BY_OTHERS.items():
            if name in each["metadata"]:
                yield f"{what} ({each['name']}), whose values only the engine that made it can work out"
    if (configuration.get("delta.columnMapping.mode") or "none") != "none":
        yield "column mapping, by which files name their columns otherwise"
    for name, what in _NOT_REWRITTEN.items():
        if rewrites and (configuration.get(name) or "").lower() == "true":
            yield f"{name}: it {what}, and an upsert writes files anew"
    if rewrites:
        yield from deletion_vectors(protocol)


def deletion_vectors(protocol: Protocol) -> Iterator[str]:
    """Yield the reason against rewriting files of a table, if deleted rows may still be in them."""
    if "deletionVectors" in (protocol.writerFeatures or ()):
        yield "deletion vectors, and files written anew from here would bring deleted rows back"
