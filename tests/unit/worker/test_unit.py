"""Who ends a unit of work: itself, or whoever has waited long enough for what it does now."""

from typing import Any, cast

import pytest

from penstock.clock import SYSTEM
from penstock.worker.task import Task
from penstock.worker.unit import Unit

NOTHING = cast(Any, None)
TASK = cast(Task, object())


@pytest.fixture
def unit() -> Unit:
    """Give a unit that handles something."""
    made = Unit(NOTHING, NOTHING, [], SYSTEM)
    made.current = (TASK, 1.0)
    return made


def test_a_unit_is_claimed_once(unit: Unit) -> None:
    assert unit.claim(unit.current)
    assert not unit.claim(unit.current)
    assert not unit.claim()


def test_what_was_waited_for_and_is_over_claims_nothing(unit: Unit) -> None:
    seen = unit.current
    unit.current = (TASK, 1.0)  # the next call, or the fallback
    assert not unit.claim(seen)
    assert unit.claim()
