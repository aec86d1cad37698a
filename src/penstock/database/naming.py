"""Table names: puts the prefix and schema that a user chose into SQL.

SQL files use the default prefix, so they can be read and run unchanged. `Names.apply` replaces it:
`penstock_x` at the start of a word is a table and gets schema and prefix; inside a word (`ix_penstock_x`) it
is the name of an index and gets the prefix alone, since an index is in the schema of its table. Both are
checked identifiers, so user input never becomes SQL.
"""

import re
from dataclasses import dataclass

from penstock.errors import InvalidName

DEFAULT_PREFIX = "penstock_"
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,29}")
# One expression and one pass: the chosen prefix may itself contain the default one.
_NAME = re.compile(rf"(?P<table>\b{DEFAULT_PREFIX})(?=[a-z])|(?<=_){DEFAULT_PREFIX}(?=[a-z])")


@dataclass(frozen=True, slots=True)
class Names:
    """The prefix of every table, and the schema of the tables (None: the connection's own)."""

    prefix: str = DEFAULT_PREFIX
    schema: str | None = None

    def __post_init__(self) -> None:
        for what, name in (("prefix", self.prefix), ("schema", self.schema)):
            if name is not None and not (isinstance(name, str) and _IDENTIFIER.fullmatch(name)):
                raise InvalidName(what, name)

    def table(self, name: str) -> str:
        """Return a table's full name; the schema is quoted, for it may be an SQL keyword such as `order`."""
        return f'"{self.schema}".{self.prefix}{name}' if self.schema else f"{self.prefix}{name}"

    def apply(self, sql: str) -> str:
        """Return SQL with these names instead of the default ones."""
        if self == Names():
            return sql
        return _NAME.sub(lambda found: self.table("") if found["table"] else self.prefix, sql)
