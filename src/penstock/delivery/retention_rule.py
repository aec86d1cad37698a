"""What retention keeps: the settings, the limits of topics, and the rule that joins them. No I/O."""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, NamedTuple

from penstock.log.contract import Keep
from penstock.settings import Settings, setting

UNLIMITED = -1  # in a topic's own limits: no limit, whatever the settings say


class RetentionSettings(Settings, room="retention"):
    """What the log keeps, unless a topic says otherwise, and how the rest is deleted."""

    age: timedelta = setting(timedelta(days=7), "Records older than this are deleted.", at_least=1)
    bytes: int = setting(0, "Most bytes kept of each partition; 0: no limit.", at_least=0)
    records: int = setting(0, "Most records kept of each partition; 0: no limit.", at_least=0)
    interval: timedelta = setting(timedelta(seconds=30), "Time between two passes.", at_least=0.01)
    batch_size: int = setting(1000, "Most records deleted in one transaction.", at_least=1)
    batches_per_pass: int = setting(
        4, "Most transactions of a pass; one that was full is followed at once.", at_least=1
    )
    # Being there is noted once an hour, so less than two hours would forget a group that works.
    group_expires: timedelta = setting(
        timedelta(days=7), "A group that had no member for this long no longer holds records back.", at_least=7200
    )


class Limits(NamedTuple):
    """The limits of a topic; None: no limit. `passed`: records that all groups have passed are deleted."""

    older_than_ms: int | None = None  # records published before this moment are deleted
    bytes: int | None = None
    records: int | None = None
    passed: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether nothing is ever deleted."""
        return self == Limits()


@dataclass(frozen=True, slots=True)
class AsSet:
    """The rule of the settings and the topics. `needs_reader`: a partition no group reads keeps everything."""

    settings: RetentionSettings
    needs_reader: ClassVar[bool] = False

    def limits(self, keep: Keep, now_ms: int) -> Limits:
        """Return each limit of the topic, or else of the settings; an age of 0 deletes what all groups have passed."""
        settings = self.settings
        default_ms = settings.age // timedelta(milliseconds=1)
        defaults = default_ms, settings.bytes or None, settings.records or None
        own = [default if said is None else said for said, default in zip(keep, defaults, strict=True)]
        age_ms, size, records = (None if each is not None and each < 0 else each for each in own)
        passed = age_ms == 0
        if passed:
            age_ms = default_ms
        return Limits(None if age_ms is None else now_ms - age_ms, size, records, passed)

    def seen_since_ms(self, now_ms: int) -> int:
        """Return the moment before which a group without a member no longer counts."""
        return now_ms - self.settings.group_expires // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class PassedBefore:
    """By hand: records from before a moment that every group has passed, expired groups included."""

    before_ms: int
    needs_reader: ClassVar[bool] = True

    def limits(self, keep: Keep, now_ms: int) -> Limits:
        """Return the moment as the only limit, whatever the topic keeps."""
        return Limits(older_than_ms=self.before_ms)

    def seen_since_ms(self, now_ms: int) -> int:
        """Return the beginning of time: every group counts."""
        return 0


RetentionRule = AsSet | PassedBefore  # which records may be deleted
