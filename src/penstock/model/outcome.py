"""The outcome that a handler returns: a value, never a flag. Its exceptions go to the retry policy instead.

None and `Done` mean the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.errors import InvalidOutcome


@dataclass(frozen=True, slots=True)
class Done:
    """The record is handled."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Deliver it again, counted as an attempt; after `after`, or after the delay of the retry policy."""

    after: timedelta | None = None

    def __post_init__(self) -> None:
        if self.after is not None and not (isinstance(self.after, timedelta) and self.after >= timedelta()):
            raise InvalidOutcome(self.after, "Retry(after) must be a timedelta of zero or more, or None")


@dataclass(frozen=True, slots=True)
class Snooze:
    """Deliver it again later, not counted as an attempt; its lane waits until then."""

    until: datetime | timedelta

    def __post_init__(self) -> None:
        if isinstance(self.until, timedelta):
            if self.until < timedelta():
                raise InvalidOutcome(self.until, "Snooze(until) must not lie in the past")
        elif not isinstance(self.until, datetime) or self.until.utcoffset() is None:
            raise InvalidOutcome(self.until, "Snooze(until) must be an aware datetime or a timedelta")


@dataclass(frozen=True, slots=True)
class Cancel:
    """Give the record up: it becomes a dead letter with this reason, and its lane continues."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise InvalidOutcome(self.reason, "Cancel(reason) must be a sentence a person can read")


Outcome = Done | Retry | Snooze | Cancel
RecordAnswer = Outcome | type[Done] | None
HandlerAnswer = RecordAnswer | Sequence[RecordAnswer]  # a batch handler may answer for each record


def outcome_of(result: object) -> Outcome:
    """Return the outcome of a handler's return value. Raises InvalidOutcome for anything else."""
    if result is None or result is Done:
        return Done()
    if isinstance(result, Done | Retry | Snooze | Cancel):
        return result
    raise InvalidOutcome(result, "a handler returns None, Done, Retry, Snooze or Cancel")
