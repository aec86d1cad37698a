"""The retry policy of the settings, for handlers that name none.

Empty settings mean the same policy as `Exponential()`.
"""

from datetime import timedelta
from typing import Any

from penstock.settings import Settings, setting

from .retry import Exponential, Fixed, Linear, PowerOfTwo, RetryPolicy

_TEN_YEARS = 315_360_000  # the longest delay of a policy
_POLICIES = ("exponential", "fixed", "linear", "power_of_two")


def _delay(seconds: int, help: str) -> Any:
    return setting(timedelta(seconds=seconds), help, at_least=0.001, at_most=_TEN_YEARS)


class RetrySettings(Settings, room="retry"):
    """How a failed record is retried when its handler has no policy."""

    policy: str = setting("exponential", "The kind of policy.", choices=_POLICIES)
    max_retries: int = setting(3, "Retries after the first attempt.", at_least=0)
    jitter: timedelta = setting(timedelta(), "Spread around each delay.", at_least=0, at_most=_TEN_YEARS)
    include_exceptions: tuple[str, ...] = setting((), "Only these exception classes are retried.")
    exclude_exceptions: tuple[str, ...] = setting((), "These exception classes are never retried.")
    fixed_delay: timedelta = _delay(5, "fixed: the delay.")
    linear_initial_delay: timedelta = _delay(2, "linear: first delay.")
    linear_increment: timedelta = _delay(2, "linear: growth of each delay.")
    linear_max_delay: timedelta = _delay(60, "linear: longest delay.")
    exponential_initial_delay: timedelta = _delay(2, "exponential: first delay.")
    exponential_multiplier: float = setting(2.0, "exponential: factor between delays.", at_least=1.000001, at_most=1e9)
    exponential_max_delay: timedelta = _delay(60, "exponential: longest delay.")
    power_of_two_max_retries: int = setting(5, "power_of_two: retries after the first attempt.", at_least=0)

    def to_policy(self) -> RetryPolicy:
        """Return the policy these settings describe."""
        shared: dict[str, Any] = {
            "max_retries": self.max_retries,
            "jitter": self.jitter,
            "retry_on": self.include_exceptions,
            "no_retry_on": self.exclude_exceptions,
        }
        match self.policy:
            case "fixed":
                return Fixed(self.fixed_delay, **shared)
            case "linear":
                return Linear(self.linear_initial_delay, self.linear_increment, self.linear_max_delay, **shared)
            case "power_of_two":
                return PowerOfTwo(**shared | {"max_retries": self.power_of_two_max_retries})
            case _:
                return Exponential(
                    self.exponential_initial_delay, self.exponential_multiplier, self.exponential_max_delay, **shared
                )
