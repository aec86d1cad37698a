"""The states that pages and help name are those the code has, no more and no less."""

import re
from enum import Enum

import pytest

from penstock.cli.why import lanes_command
from penstock.delivery.verdict import OnExhausted, OnFailure
from penstock.operate.lanes import LaneState
from tests.docs.pages import PROJECT


def page(name: str) -> str:
    return (PROJECT / "docs" / "how-to" / name).read_text("utf-8")


def values(states: type[Enum]) -> set[str]:
    return {each.value for each in states}


def test_the_help_of_lanes_explains_each_state_and_no_other() -> None:
    assert lanes_command.help is not None
    assert set(re.findall(r"\b(\w+): ", lanes_command.help)) == values(LaneState)


def test_the_page_of_dead_letters_names_each_state_of_a_lane() -> None:
    (sentence,) = re.findall(r"`penstock lanes` lists the keys that wait: ([^.]*)\.", page("dead-letters.md"))
    assert {each for each in re.findall(r"\w+", sentence) if each in values(LaneState)} == values(LaneState)


@pytest.mark.parametrize(("option", "states"), [("on_failure", OnFailure), ("on_exhausted", OnExhausted)])
def test_the_page_of_handlers_names_each_choice(option: str, states: type[Enum]) -> None:
    said = set(re.findall(r'"(\w+)"', page("handle-events.md")))
    assert values(states) <= said, option
