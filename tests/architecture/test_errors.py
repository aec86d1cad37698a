"""Every error has a code of its own, a row in each face's table and a place in the drawn tree."""

import re
from collections.abc import Iterator, Mapping, Sequence

from penstock import errors
from penstock.broker.error_codes import ERROR_NUMBERS
from penstock.cli.exit_codes import EXIT_CODES
from penstock.errors import Error, tree
from penstock.gateway.statuses import STATUSES
from penstock.gateway.tinyq.answers import ANSWERS
from tests.architecture.source import assert_none
from tools.tree import import_everything

HOME = errors.__name__
# Without what other tests have derived in this process.
CLASSES = [cls for cls in tree() if cls.__module__ == HOME]
_DRAWN = re.compile(r"^ {4}((?:[│ ] {3})*(?:[├└]── )?)([A-Z]\w*)", re.MULTILINE)


def code_breaches(classes: Sequence[type[Error]]) -> Iterator[str]:
    """Yield a sentence for each class that has no docstring, or no plain code of its own."""
    owners: dict[str, str] = {}
    for cls in classes:
        if "code" not in vars(cls):
            yield f"{cls.__name__} has no code of its own"
        elif (owner := owners.setdefault(cls.code, cls.__name__)) != cls.__name__:
            yield f"{cls.__name__} has the code {cls.code} of {owner}"
        if not re.fullmatch(r"[a-z][a-z_]*", cls.code):
            yield f"{cls.__name__}: the code {cls.code!r} is not words joined by _"
        if not vars(cls).get("__doc__"):
            yield f"{cls.__name__} has no docstring"


def table_breaches(codes: set[str], table: Mapping[str, object]) -> Iterator[str]:
    """Yield one sentence for each code that a face's table lacks, and per row for a code that is no more."""
    yield from (f"{code} is missing" for code in sorted(codes - table.keys()))
    yield from (f"{code} is stale" for code in sorted(table.keys() - codes))


def drawn(text: str) -> dict[str, str]:
    """Return each class in a drawn tree with the class it hangs from ("" for the root)."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for branch, name in _DRAWN.findall(text):
        depth = len(branch) // 4
        path[depth:] = [name]
        parents[name] = path[depth - 1] if depth else ""
    return parents


def test_every_code_is_its_own() -> None:
    assert_none(code_breaches(CLASSES))


def test_every_error_is_in_the_one_file() -> None:
    import_everything()
    assert [cls for cls in tree() if cls.__module__.startswith("penstock.") and cls.__module__ != HOME] == []


def test_every_code_has_an_exit_code_and_no_row_is_stale() -> None:
    assert_none(table_breaches({cls.code for cls in CLASSES}, EXIT_CODES))


def test_every_code_has_a_number_of_kafkas_and_no_row_is_stale() -> None:
    assert_none(table_breaches({cls.code for cls in CLASSES}, ERROR_NUMBERS))


def test_every_code_has_a_status_of_http_and_no_row_is_stale() -> None:
    assert_none(table_breaches({cls.code for cls in CLASSES}, STATUSES))


def test_every_code_has_an_answer_of_tinyqs_and_no_row_is_stale() -> None:
    assert_none(table_breaches({cls.code for cls in CLASSES}, ANSWERS))


def test_the_drawn_tree_is_the_real_one() -> None:
    real = {cls.__name__: "" if cls is Error else cls.__bases__[0].__name__ for cls in CLASSES}
    assert drawn(errors.__doc__ or "") == real


def test_planted_breaches_of_the_codes_are_found() -> None:
    # Built on a copy of the root, so that the real tree does not grow by what a test plants.
    root = type("Root", (Exception,), {"code": "root", "__doc__": "A root."})
    silent = type("Silent", (root,), {"__doc__": "Borrows its code."})
    taken = type("Taken", (root,), {"code": "root", "__doc__": "Takes a code."})
    shouted = type("Shouted", (root,), {"code": "Shouted-1", "__doc__": "A code that is no word."})
    mute = type("Mute", (root,), {"code": "mute"})
    assert list(code_breaches([root, silent, taken, shouted, mute])) == [
        "Silent has no code of its own",
        "Taken has the code root of Root",
        "Shouted: the code 'Shouted-1' is not words joined by _",
        "Mute has no docstring",
    ]


def test_planted_breaches_of_a_table_are_found() -> None:
    assert list(table_breaches({"a", "b"}, {"b": 1, "c": 2})) == ["a is missing", "c is stale"]


def test_a_drawn_tree_is_read_by_its_branches() -> None:
    text = "The tree.\n\n    A\n    ├── B      said\n    │   ├── C\n    │   └── D\n    └── E\n\nA code."
    assert drawn(text) == {"A": "", "B": "A", "C": "B", "D": "B", "E": "A"}
