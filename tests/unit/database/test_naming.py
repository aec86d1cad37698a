"""Names of tables: what may be chosen, and how it gets into SQL."""

import pytest

from penstock.database.naming import Names
from penstock.errors import InvalidName

NO_NAMES = [
    "",
    "A",
    "1a",
    "a-b",
    "a b",
    "a.b",
    'a"',
    "a'",
    "a;--",
    "ü",
    "a\n",
    "x" * 31,
    "penstock_; DROP TABLE penstock_log; --",
    5,
    b"a",
]
TEXT = (
    "CREATE TABLE penstock_staged (seq bigint DEFAULT nextval('penstock_staged_seq'));\n"
    "CREATE INDEX ix_penstock_staged_due ON penstock_staged (seq);\n"
    "SELECT penstock, penstock_, xpenstock_a FROM penstock_log"
)


@pytest.mark.parametrize("name", NO_NAMES, ids=repr)
@pytest.mark.parametrize("what", ["prefix", "schema"])
def test_what_is_no_plain_name_is_refused(what: str, name: object) -> None:
    with pytest.raises(InvalidName, match=f"{what} .*must be 1 to 30"):
        Names(**{what: name})  # type: ignore[arg-type]


def test_the_default_names_change_nothing() -> None:
    assert Names().apply(TEXT) == TEXT
    assert Names().table("log") == "penstock_log"


@pytest.mark.parametrize("prefix", ["acme_", "a", "my_penstock_", "penstock_x_", "_", "x" * 30])
@pytest.mark.parametrize("schema", [None, "events", "order", "my_penstock_schema"])
def test_a_prefix_and_a_schema_take_the_place_of_the_default(prefix: str, schema: str | None) -> None:
    """Each name once, also when the chosen one holds the default one; an index has no schema of its own."""
    names = Names(prefix, schema)
    table = f'"{schema}".{prefix}' if schema else prefix
    assert names.table("log") == f"{table}log"
    assert names.apply(TEXT) == (
        f"CREATE TABLE {table}staged (seq bigint DEFAULT nextval('{table}staged_seq'));\n"
        f"CREATE INDEX ix_{prefix}staged_due ON {table}staged (seq);\n"
        f"SELECT penstock, penstock_, xpenstock_a FROM {table}log"
    )
