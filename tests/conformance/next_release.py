"""A release to come, made up: this one, with one migration more that only adds."""

from collections.abc import Iterator

import pytest

from penstock.database import migrations
from penstock.database.migrations import Migration, chain_of
from penstock.database.naming import Names

RELEASED = chain_of("sqlite", Names())
KNOWN = RELEASED[-1].version
NEXT = KNOWN + 1
# Runs on every dialect.
EXPANDING = """
UPDATE penstock_meta SET value = '{version}' WHERE name = 'schema_version';
CREATE TABLE penstock_later (id integer PRIMARY KEY);
ALTER TABLE penstock_cursor ADD COLUMN later text;
ALTER TABLE penstock_member ADD COLUMN later text;
"""


def add_next(monkeypatch: pytest.MonkeyPatch, script: str = EXPANDING.format(version=NEXT)) -> None:
    """Make this process the next release: its chain has one migration more."""
    released = migrations._read

    def read(dialect: str, names: Names) -> Iterator[Migration]:
        yield from released(dialect, names)
        yield Migration(NEXT, "later", names.apply(script))

    monkeypatch.setattr(migrations, "_read", read)
