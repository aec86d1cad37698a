"""Who ends a unit of work: itself, or whoever has waited long enough for what it does now."""

from typing import Any, cast

import pytest

from penstock.worker.group.unit_outcome import Claim
from penstock.worker.handler import HandlerTask

TASK = cast(HandlerTask, cast(Any, object()))


@pytest.fixture
def claim() -> Claim:
    """Give the claim of a unit that handles something."""
    made = Claim()
    made.current = (TASK, 1.0)
    return made


def test_a_unit_is_claimed_once(claim: Claim) -> None:
    assert claim.take(claim.current)
    assert not claim.take(claim.current)
    assert not claim.take()


def test_what_was_waited_for_and_is_over_claims_nothing(claim: Claim) -> None:
    seen = claim.current
    claim.current = (TASK, 1.0)  # the next call, or the fallback
    assert not claim.take(seen)
    assert claim.take()


def test_a_unit_that_goes_on_can_be_claimed_again(claim: Claim) -> None:
    assert claim.take()
    claim.reopen()
    assert claim.current is None
    assert claim.take()
