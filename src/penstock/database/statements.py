"""The statements of a room, read from its files, translated to the dialect, with the chosen names.

A room has `<room>/sql/common.sql` for every dialect, and `<room>/sql/<dialect>.sql` with one dialect's own
forms, which override `common.sql` by name. A statement begins with `-- name: cursors_settle`, continues with
comments on its locks and the index it walks, and ends with `;`. It is written in one neutral SQL, whose forms
are the fields of `Wording`; each dialect has its words for them in `wording.py`:

| neutral                                | PostgreSQL                      | SQLite                       |
|----------------------------------------|---------------------------------|------------------------------|
| `:name`, `?` (parameters)              | `%(name)s`, `%s`                | as they are                  |
| `:id::integer`, `sum(x)::bigint`       | as it is                        | without the `::type`         |
| `= ANY(:ids::integer[])`, `<> ALL(…)`  | as it is                        | `[NOT] IN` a list in JSON    |
| `= ANY(ARRAY(SELECT …))`               | as it is                        | `IN (SELECT …)`              |
| `now_ms(:now_ms)`                      | the parameter or, if NULL, the server's clock | the same       |
| `rows(:lanes, lane text, …) AS l`      | `unnest` of one array a column  | a subquery over a JSON array |
| `CROSS JOIN x ON …` (in this order)    | `JOIN x ON …`                   | as it is: keeps the order    |
| `FOR UPDATE OF c SKIP LOCKED` and such | as it is                        | nothing: one writer at a time |
| `greatest`, `least`, `octet_length`    | as they are                     | `max`, `min`, `length`       |

The columns of `rows(…)` are those of the `Rows` in Python. A single one is `:lanes.lane`, in dialects with arrays.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

from .contract import Wording
from .naming import Names
from .postgres.wording import POSTGRES
from .second_forms import SecondForm, read_form
from .sqlite.wording import SQLITE

_WORDINGS = {"postgres": POSTGRES, "sqlite": SQLITE}
_HEADER = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMON = "common"
_ROWS = re.compile(r"\brows\(:(?P<param>\w+),(?P<columns>[^()]+)\)\s+AS\s+(?P<alias>\w+)")
_IN_SELECT = re.compile(r"= ANY\(ARRAY\(")
# Parameters come last: the words of other forms may contain them.
_FORMS = {
    "now_ms": re.compile(r"\bnow_ms\(:(?P<param>\w+)\)"),
    "in_list": re.compile(r"= ANY\(:(?P<list>\w+)::(?P<type>\w+)\[\]\)"),
    "not_in_list": re.compile(r"<> ALL\(:(?P<list>\w+)::(?P<type>\w+)\[\]\)"),
    "lock": re.compile(r"(?P<lock>\s+FOR (?:UPDATE|NO KEY UPDATE|SHARE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED)?\b)"),
    "ordered_join": re.compile(r"\bCROSS JOIN(?= \w+(?: AS)?(?: \w+)?\s+ON\b)"),
    "greatest": re.compile(r"\bgreatest(?=\()"),
    "least": re.compile(r"\bleast(?=\()"),
    "octet_length": re.compile(r"\boctet_length(?=\()"),
    "cast": re.compile(r"::(?P<type>\w+)"),
    "percent": re.compile("%"),
    "position": re.compile(r"\?"),
    "parameter": re.compile(r"(?<![:\w]):(?P<name>[a-z]\w*(?:\.\w+)?)"),
}


@lru_cache(maxsize=2048)
def statement(room: str, dialect: str, name: str, names: Names) -> str:
    """Return a statement in the dialect. Raises LookupError for one that the room does not have."""
    found = statements(room, dialect, names)
    if name not in found:
        raise LookupError(f"{room}/sql/ has no statement {name} for {dialect}")
    return found[name]


@lru_cache(maxsize=256)
def statements(room: str, dialect: str, names: Names) -> dict[str, str]:
    """Return all statements of a room in the dialect, by name."""
    texts = _texts(room, dialect)
    return {name: names.apply(translate(text, _WORDINGS[dialect])) for name, text in texts.items()}


@lru_cache(maxsize=32)
def second_forms(room: str) -> dict[str, SecondForm]:
    """Return the second forms that `common.sql` declares, by the name of the statement."""
    forms = {name: read_form(text) for name, text in _read(room, _COMMON).items()}
    return {name: form for name, form in forms.items() if form is not None}


def _texts(room: str, dialect: str) -> dict[str, str]:
    texts = {name: _body(text) for name, text in (_read(room, _COMMON) | _read(room, dialect)).items()}
    return {name: text for name, text in texts.items() if text}


def _read(room: str, file: str) -> dict[str, str]:
    path = files(f"penstock.{room}.sql").joinpath(f"{file}.sql")
    if not path.is_file():
        return {}
    found: dict[str, str] = {}
    for name, text in split(path.read_text("utf-8")):
        if name in found:
            raise ValueError(f"{room}/sql/{file}.sql has two statements of the name {name}")
        found[name] = text
    return found


def _body(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().removesuffix(";")


def split(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each statement of a file, with its comments."""
    _, *parts = _HEADER.split(text)
    yield from zip(parts[::2], parts[1::2], strict=True)


def translate(sql: str, wording: Wording) -> str:
    """Return a statement in the words of a dialect."""
    sql = _in_selects(_ROWS.sub(lambda found: _rows(found, wording), sql), wording.in_select)
    for form, pattern in _FORMS.items():
        sql = _replaced(sql, pattern, getattr(wording, form))
    return sql


def _replaced(sql: str, pattern: re.Pattern[str], words: str) -> str:
    return pattern.sub(lambda found: words.format(**found.groupdict()), sql)


def _rows(found: re.Match[str], wording: Wording) -> str:
    columns = [each.split(maxsplit=1) for each in found["columns"].split(",")]
    written = (
        wording.rows_column.format(param=found["param"], name=name, type=type, at=at)
        for at, (name, type) in enumerate(columns)
    )
    names = ", ".join(name for name, _ in columns)
    parts = found.groupdict() | {"columns": ", ".join(written), "names": names}
    return wording.rows.format(**parts)


def _in_selects(sql: str, words: str) -> str:
    """Replace each `= ANY(ARRAY(SELECT …))`, those inside of others first."""
    for found in reversed(list(_IN_SELECT.finditer(sql))):
        end = _closing(sql, found.end())
        sql = f"{sql[: found.start()]}{words.format(query=sql[found.end() : end])}{sql[end + 2 :]}"
    return sql


def _closing(sql: str, start: int) -> int:
    depth = 1
    for at in range(start, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[at], 0)
        if not depth:
            return at
    raise ValueError(f"a parenthesis is not closed: {sql}")
