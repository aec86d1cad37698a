"""What runs in place of a statement where the database lacks what it is written with: its second form.

A dialect declares what it lacks by these names:

| name           | what it is                                               |
|----------------|----------------------------------------------------------|
| `returning`    | `RETURNING`                                              |
| `on_conflict`  | `INSERT … ON CONFLICT`                                   |
| `update_from`  | `UPDATE … FROM` and `DELETE … USING`                     |
| `writing_with` | a write inside `WITH` that feeds another                 |

A statement of `common.sql` that has one of them says what to do without, in a line of its comment such as
`-- without returning: find_then_change(slots_take_find, slots_take_write)`: a function of this module and
what it is given, mostly the names of portable statements of the same file. They run in the same transaction
and give the same result. A name may have nothing but that line: then the files of the dialects have the text.

A dialect that lacks something must count a row that an UPDATE has found as changed also if it has the same
values as before; and where two may insert the same row at once, the error of the second has to be a conflict
(`Dialect.is_conflict`): its transaction runs again and finds the row.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from penstock.errors import PickChanged

from .contract import Call, Params, Result

FEATURES = frozenset({"returning", "on_conflict", "update_from", "writing_with"})
_LINE = re.compile(r"^-- without (?P<features>[\w, ]+): (?P<function>\w+)\((?P<arguments>[\w, ]+)\)$", re.M)


class SecondForm(NamedTuple):
    """A function of this module, what it is given, and what it does without."""

    without: frozenset[str]
    function: str
    arguments: tuple[str, ...]


class StatementRunner(Protocol):
    """A transaction, which runs statements by room and name."""

    def execute(self, room: str, name: str, params: Params) -> Result:
        """Run one."""

    def execute_all(self, calls: Sequence[Call]) -> list[Result]:
        """Run several, one after the other."""


def read_form(text: str) -> SecondForm | None:
    """Return the second form that a statement's comment declares. Raises ValueError for one there is not."""
    found = _LINE.search(text)
    if found is None:
        return None
    form = SecondForm(frozenset(_words(found["features"])), found["function"], _words(found["arguments"]))
    if not form.without <= FEATURES or form.function not in _FUNCTIONS:
        raise ValueError(f"there is no such second form: {found[0]}")
    return form


def run(form: SecondForm, tx: StatementRunner, room: str, params: Params) -> Result:
    """Run a second form in an open transaction."""
    return _FUNCTIONS[form.function](tx, room, params, *form.arguments)


def instead(tx: StatementRunner, room: str, params: Params, statement: str) -> Result:
    """Run another statement with the same parameters."""
    return tx.execute(room, statement, params)


def find_then_change(tx: StatementRunner, room: str, params: Params, find: str, change: str) -> Result:
    """Lock rows and read what RETURNING would say of them; then change them, the first column as `:found`.

    Raises PickChanged when more or fewer are changed than were found: all is taken back and runs again.
    """
    found = tx.execute(room, find, params).rows
    if found:
        changed = tx.execute(room, change, params | {"found": [row[0] for row in found]}).changed
        if changed != len(found):
            raise PickChanged(len(found), changed)
    return Result(found, len(found))


def for_each(tx: StatementRunner, room: str, params: Params, table: str, statement: str) -> Result:
    """Run a statement for each row of a parameter that is a small table; return the key of those it changed.

    The columns are parameters, and the first of them is the key.
    """
    each = list(_each(params, table))
    results = tx.execute_all([Call(room, statement, one) for one in each])
    key = next(iter(params[table].columns))
    rows = [(one[key],) for one, result in zip(each, results, strict=True) if result.changed]
    return Result(rows, sum(result.changed for result in results))


def update_or_insert(tx: StatementRunner, room: str, params: Params, update: str, insert: str) -> Result:
    """Change a row or, if it is not there, add it."""
    updated = tx.execute(room, update, params)
    return updated if updated.changed else tx.execute(room, insert, params)


def update_or_insert_each(
    tx: StatementRunner, room: str, params: Params, table: str, update: str, insert: str
) -> Result:
    """Change or add a row for each of a parameter that is a small table, whose columns are parameters."""
    results = [update_or_insert(tx, room, each, update, insert) for each in _each(params, table)]
    return Result([], sum(result.changed for result in results))


_FUNCTIONS: dict[str, Callable[..., Result]] = {
    each.__name__: each
    for each in (instead, find_then_change, for_each, update_or_insert, update_or_insert_each)
}


def _each(params: Params, table: str) -> Iterator[Params]:
    """Yield the parameters with the columns of one row after the other in place of the table."""
    columns = params[table].columns
    others = {name: value for name, value in params.items() if name != table}
    for values in zip(*columns.values(), strict=True):
        yield others | dict(zip(columns, values, strict=True))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))
