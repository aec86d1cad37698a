"""Table names: the prefix and the schema that a user may choose, and SQL files that carry them.

SQL files are written with the default prefix, so they can be read and run as they are. `Names.apply` puts the
chosen ones in: `penstock_x` at the start of a word is a table and gets schema and prefix; inside a word
(`ix_penstock_x`) it is the name of an index and gets the prefix alone, since an index lives where its
table lives. Both are checked identifiers, so nothing a user says becomes SQL.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from penstock.errors import InvalidName

DEFAULT_PREFIX = "penstock_"
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,29}")
_TABLE = re.compile(rf"\b{DEFAULT_PREFIX}(?=[a-z])")
_INSIDE = re.compile(rf"(?<=_){DEFAULT_PREFIX}(?=[a-z])")


@dataclass(frozen=True, slots=True)
class Names:
    """The prefix of every table, and the schema they live in (None: the connection's own)."""

    prefix: str = DEFAULT_PREFIX
    schema: str | None = None

    def __post_init__(self) -> None:
        for what, name in (("prefix", self.prefix), ("schema", self.schema)):
            if name is not None and not _IDENTIFIER.fullmatch(name):
                raise InvalidName(what, name)

    def table(self, name: str) -> str:
        """Return a table's full name."""
        return f"{self.schema}.{self.prefix}{name}" if self.schema else f"{self.prefix}{name}"

    def apply(self, sql: str) -> str:
        """Return SQL with these names in place of the default ones."""
        if self == Names():
            return sql
        return _INSIDE.sub(self.prefix, _TABLE.sub(self.table(""), sql))


@lru_cache(maxsize=1024)
def statement(package: str, name: str, names: Names) -> str:
    """Return the statement of `<package>/<name>.sql`, without its comment lines."""
    text = files(package).joinpath(f"{name}.sql").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return names.apply("\n".join(lines).strip().removesuffix(";"))
