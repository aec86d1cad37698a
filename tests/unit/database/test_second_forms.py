"""What runs in place of a statement where the database lacks what it is written with."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from penstock.database.contract import Call, Params, Result, Rows
from penstock.database.database import Database
from penstock.database.naming import Names
from penstock.database.second_forms import FEATURES, SecondForm, read_form, run
from penstock.database.sqlite.dialect import SqliteDialect
from penstock.database.statements import second_forms
from penstock.errors import PickChanged

LANES = Rows(lane=["a", "b", "c"], held=[True, False, True])


class Script:
    """A transaction that answers each statement as it is told, and notes what it was asked."""

    def __init__(self, answers: Mapping[str, Sequence[Result]]) -> None:
        self._answers = {name: iter(results) for name, results in answers.items()}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def execute(self, room: str, name: str, params: Params) -> Result:
        """Answer one."""
        assert room == "room"
        self.asked.append((name, params))
        return next(self._answers[name])

    def execute_all(self, calls: Sequence[Call]) -> list[Result]:
        """Answer several."""
        return [self.execute(*each) for each in calls]


def form(text: str) -> SecondForm:
    found = read_form(f"-- Locks.\n-- without {text}\nSELECT 1;\n")
    assert found is not None
    return found


def changing(*counts: int) -> list[Result]:
    return [Result([], count) for count in counts]


def test_a_line_of_the_comment_declares_it() -> None:
    found = form("returning, update_from: for_each(lanes, lane_put)")
    assert found == SecondForm(frozenset({"returning", "update_from"}), "for_each", ("lanes", "lane_put"))
    assert read_form("-- Locks.\nSELECT 1;\n") is None


@pytest.mark.parametrize("text", ["returning: guess(a)", "windows: instead(a)"])
def test_one_that_is_not_there_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="there is no such second form"):
        form(text)


def test_instead_gives_what_the_other_statement_gives() -> None:
    script: Any = Script({"b": changing(3)})
    assert run(form("on_conflict: instead(b)"), script, "room", {"x": 1}).changed == 3
    assert script.asked == [("b", {"x": 1})]


def test_what_is_found_is_changed_and_told() -> None:
    script: Any = Script({"find": [Result([(7, "x"), (8, "y")], -1)], "drop": changing(2)})
    result = run(form("returning: find_then_change(find, drop)"), script, "room", {"x": 1})
    assert result == Result([(7, "x"), (8, "y")], 2)
    assert script.asked == [("find", {"x": 1}), ("drop", {"x": 1, "found": [7, 8]})]


def test_where_nothing_is_found_nothing_is_changed() -> None:
    script: Any = Script({"find": [Result([], -1)]})
    assert run(form("returning: find_then_change(find, drop)"), script, "room", {}) == Result([], 0)


@pytest.mark.parametrize("changed", [1, 3])
def test_another_count_than_was_found_is_refused(changed: int) -> None:
    script: Any = Script({"find": [Result([(7,), (8,)], -1)], "drop": changing(changed)})
    with pytest.raises(PickChanged):
        run(form("returning: find_then_change(find, drop)"), script, "room", {})


def test_each_row_is_a_statement_and_those_it_changed_are_told() -> None:
    script: Any = Script({"put": changing(1, 0, 2)})
    result = run(form("update_from: for_each(lanes, put)"), script, "room", {"x": 1, "lanes": LANES})
    assert result == Result([("a",), ("c",)], 3)
    assert script.asked[1] == ("put", {"x": 1, "lane": "b", "held": False})


def test_a_row_that_is_not_there_is_added() -> None:
    script: Any = Script({"put": changing(0), "add": changing(1)})
    assert run(form("on_conflict: update_or_insert(put, add)"), script, "room", {"x": 1}).changed == 1
    assert [name for name, _ in script.asked] == ["put", "add"]


def test_of_a_table_only_rows_that_are_not_there_are_added() -> None:
    script: Any = Script({"put": changing(1, 0, 1), "add": changing(1)})
    text = "on_conflict: update_or_insert_each(lanes, put, add)"
    assert run(form(text), script, "room", {"lanes": LANES}).changed == 3
    assert script.asked[2] == ("add", {"lane": "b", "held": False})


@pytest.mark.parametrize("room", ["delivery", "log", "membership", "outbox"])
def test_a_database_takes_one_only_for_what_it_lacks(room: str) -> None:
    dialect = SqliteDialect("unused")
    database = Database(dialect, Names())
    forms = second_forms(room)
    assert forms
    assert not [name for name in forms if database.second_form(room, name)]
    dialect.lacks = FEATURES
    assert all(database.second_form(room, name) == form for name, form in forms.items())
    dialect.lacks = frozenset({"on_conflict"})
    taken = {name for name in forms if database.second_form(room, name)}
    assert taken == {name for name, form in forms.items() if "on_conflict" in form.without}
