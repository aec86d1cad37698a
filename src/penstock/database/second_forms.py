"""Second forms of statements, for databases that lack an SQL feature.

A dialect declares the missing features by these names:

| name           | feature                                                  |
|----------------|----------------------------------------------------------|
| `returning`    | `RETURNING`                                              |
| `on_conflict`  | `INSERT … ON CONFLICT`                                   |
| `update_from`  | `UPDATE … FROM` and `DELETE … USING`                     |
| `writing_with` | a write inside `WITH` that feeds another                 |

A statement of `common.sql` that uses one of them names its second form in a comment line such as `-- without
returning: find_then_change(slots_take_find, slots_take_write)`: a function of this module and its arguments,
mostly names of portable statements in the same file. It runs in the same transaction and gives the same
result. A name may have only that line: then the dialects' files have the text.

In a dialect with missing features, an UPDATE must count a matched row as changed even if its values stay the
same; and if two transactions may insert the same row at once, the error of the second must be a conflict
(`Dialect.is_conflict`): that transaction is retried and finds the row.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from penstock.errors import PickChanged

from .contract import Call, Params, Result

FEATURES = frozenset({"returning", "on_conflict", "update_from", "writing_with"})
_LINE = re.compile(r"^-- without (?P<features>[\w, ]+): (?P<function>\w+)\((?P<arguments>[\w, ]+)\)$", re.M)


class SecondForm(NamedTuple):
    """A function of this module, its arguments, and the features that it replaces."""

    without: frozenset[str]
    function: str
    arguments: tuple[str, ...]


def read_form(text: str) -> SecondForm | None:
    """Return the second form in a statement's comment, if any. Raises ValueError for an unknown one."""
    found = _LINE.search(text)
    if found is None:
        return None
    form = SecondForm(frozenset(_words(found["features"])), found["function"], _words(found["arguments"]))
    if not form.without <= FEATURES or form.function not in _FUNCTIONS:
        raise ValueError(f"there is no such second form: {found[0]}")
    return form


class StatementRunner(Protocol):
    """A transaction, which runs statements by room and name."""

    def execute(self, room: str, name: str, params: Params) -> Result:
        """Run one statement."""

    def execute_all(self, calls: Sequence[Call]) -> list[Result]:
        """Run several statements in order."""


def run(form: SecondForm, tx: StatementRunner, room: str, params: Params) -> Result:
    """Run a second form in an open transaction."""
    return _FUNCTIONS[form.function](tx, room, params, *form.arguments)


def instead(tx: StatementRunner, room: str, params: Params, statement: str) -> Result:
    """Run another statement with the same parameters."""
    return tx.execute(room, statement, params)


def find_then_change(tx: StatementRunner, room: str, params: Params, find: str, change: str) -> Result:
    """Lock and read rows, as RETURNING would, then change them by `:found`. Raises PickChanged if others changed."""
    found = tx.execute(room, find, params).rows
    if found:
        changed = tx.execute(room, change, params | {"found": [row[0] for row in found]}).changed
        if changed != len(found):
            raise PickChanged(len(found), changed)
    return Result(found, len(found))


def for_each(tx: StatementRunner, room: str, params: Params, table: str, statement: str) -> Result:
    """Run a statement for each row of a table, its columns as parameters; return the first column of changed rows."""
    each = list(_each(params, table))
    results = tx.execute_all([Call(room, statement, one) for one in each])
    key = next(iter(params[table].columns))
    rows = [(one[key],) for one, result in zip(each, results, strict=True) if result.changed]
    return Result(rows, sum(result.changed for result in results))


def update_or_insert(tx: StatementRunner, room: str, params: Params, update: str, insert: str) -> Result:
    """Update a row or, if it does not exist, insert it."""
    updated = tx.execute(room, update, params)
    return updated if updated.changed else tx.execute(room, insert, params)


def update_or_insert_each(
    tx: StatementRunner, room: str, params: Params, table: str, update: str, insert: str
) -> Result:
    """Update or insert a row for each row of a table parameter, whose columns are parameters."""
    results = [update_or_insert(tx, room, each, update, insert) for each in _each(params, table)]
    return Result([], sum(result.changed for result in results))


_FUNCTIONS: dict[str, Callable[..., Result]] = {
    each.__name__: each for each in (instead, find_then_change, for_each, update_or_insert, update_or_insert_each)
}


def _each(params: Params, table: str) -> Iterator[Params]:
    """Yield, for each row of the table, the parameters with its columns in place of the table."""
    columns = params[table].columns
    others = {name: value for name, value in params.items() if name != table}
    for values in zip(*columns.values(), strict=True):
        yield others | dict(zip(columns, values, strict=True))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))
