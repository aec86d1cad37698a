from datetime import timedelta
from typing import Any

import pytest

from penstock.errors import SettingOutOfRange, WrongSettingType
from penstock.model.retry import Exponential, Fixed, Linear, PowerOfTwo, RetryPolicy
from penstock.model.retry_settings import RetrySettings


@pytest.mark.parametrize(
    ("name", "policy"),
    [("exponential", Exponential()), ("fixed", Fixed()), ("linear", Linear()), ("power_of_two", PowerOfTwo())],
)
def test_a_policy_without_arguments_equals_the_policy_from_empty_settings(name: str, policy: RetryPolicy) -> None:
    assert RetrySettings(policy=name).to_policy() == policy
    assert RetrySettings.load(environ={"PENSTOCK_RETRY_POLICY": name}).to_policy() == policy


def test_empty_settings_give_the_default_policy() -> None:
    assert RetrySettings.load(environ={}).to_policy() == Exponential()


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        (
            {
                "policy": "fixed",
                "fixed_delay": 1.5,
                "jitter": 0.1,
                "max_retries": 7,
                "include_exceptions": ["OSError"],
                "exclude_exceptions": ["shop.Refused", "KeyError"],
            },
            Fixed(1.5, jitter=0.1, max_retries=7, retry_on=["OSError"], no_retry_on=["shop.Refused", "KeyError"]),
        ),
        (
            {
                "policy": "linear",
                "linear_initial_delay": 1,
                "linear_increment": 3,
                "linear_max_delay": timedelta(seconds=9),
            },
            Linear(1, 3, 9),
        ),
        (
            {
                "exponential_initial_delay": 1,
                "exponential_multiplier": 3,
                "exponential_max_delay": 90,
                "max_retries": 0,
            },
            Exponential(1, 3.0, 90, max_retries=0),
        ),
        ({"policy": "power_of_two", "power_of_two_max_retries": 2}, PowerOfTwo(max_retries=2)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, RetryPolicy) else "",
)
def test_settings_describe_every_part_of_a_policy(given: dict[str, Any], policy: RetryPolicy) -> None:
    assert RetrySettings.load(environ={}, **given).to_policy() == policy


@pytest.mark.parametrize("one", [d for d in RetrySettings.declared() if d.kind == "timedelta"], ids=lambda d: d.name)
def test_a_duration_no_policy_takes_is_refused_as_a_setting(one: Any) -> None:
    longest: dict[str, Any] = {one.name: 315_360_000}
    longer: dict[str, Any] = {one.name: 315_360_001}

    assert getattr(RetrySettings.load(environ={}, **longest), one.name).days == 3650
    with pytest.raises(SettingOutOfRange, match=rf"code: retry\.{one.name}=.* it must be from .* to 315360000"):
        RetrySettings.load(environ={}, **longer)


@pytest.mark.parametrize(
    ("text", "error"), [("1", SettingOutOfRange), ("inf", WrongSettingType), ("1e300", SettingOutOfRange)]
)
def test_a_multiplier_no_policy_takes_is_refused_as_a_setting(text: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"PENSTOCK_RETRY_EXPONENTIAL_MULTIPLIER: retry\.exponential_multiplier="):
        RetrySettings.load(environ={"PENSTOCK_RETRY_EXPONENTIAL_MULTIPLIER": text})


def test_an_unknown_policy_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingOutOfRange, match=r"'random'.*one of exponential, fixed, linear, power_of_two"):
        RetrySettings(policy="random")
