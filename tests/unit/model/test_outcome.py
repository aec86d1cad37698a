from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.errors import InvalidOutcome
from penstock.model.outcome import Cancel, Done, Outcome, Retry, Snooze, outcome_of


@pytest.mark.parametrize(
    "outcome",
    [
        Done(),
        Retry(),
        Retry(timedelta()),
        Retry(after=timedelta(seconds=5)),
        Snooze(timedelta()),
        Snooze(until=timedelta(hours=1)),
        Snooze(datetime(2030, 1, 1, tzinfo=UTC)),
        Cancel("the order was withdrawn"),
    ],
    ids=repr,
)
def test_an_outcome_is_taken_as_it_is(outcome: Outcome) -> None:
    assert outcome_of(outcome) is outcome


@pytest.mark.parametrize("result", [None, Done], ids=repr)
def test_none_and_the_bare_class_mean_done(result: object) -> None:
    assert outcome_of(result) == Done()


@pytest.mark.parametrize("result", [True, False, 0, "", "done", [], Retry, Exception("no")], ids=repr)
def test_anything_else_is_refused(result: object) -> None:
    with pytest.raises(InvalidOutcome, match="a handler returns None, Done, Retry, Snooze or Cancel"):
        outcome_of(result)


@pytest.mark.parametrize(
    ("build", "value"),
    [
        (lambda: Retry(timedelta(seconds=-1)), "datetime.timedelta(days=-1"),
        (lambda: Retry(5), "5"),  # type: ignore[arg-type]
        (lambda: Snooze(timedelta(seconds=-1)), "datetime.timedelta(days=-1"),
        (lambda: Snooze(datetime(2030, 1, 1)), "datetime.datetime(2030"),  # noqa: DTZ001 (the point of it)
        (lambda: Snooze(5), "5"),  # type: ignore[arg-type]
        (lambda: Snooze(None), "None"),  # type: ignore[arg-type]
        (lambda: Cancel(""), "''"),
        (lambda: Cancel(" \n"), r"' \n'"),
        (lambda: Cancel(None), "None"),  # type: ignore[arg-type]
    ],
)
def test_an_outcome_that_cannot_be_is_refused_by_its_value(build: Callable[[], Any], value: str) -> None:
    with pytest.raises(InvalidOutcome) as refused:
        build()

    assert str(refused.value).startswith(f"outcome {value}")


def test_outcomes_are_values() -> None:
    outcome = Retry(timedelta(seconds=5))

    with pytest.raises(AttributeError):
        outcome.after = None  # type: ignore[misc]
    assert outcome == Retry(timedelta(seconds=5))
    assert hash(outcome) == hash(Retry(timedelta(seconds=5)))
