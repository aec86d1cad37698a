"""The answer to `why`: a code for programs, a sentence for people, the reason in it, and the words for both."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from penstock.clock import from_ms

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_UNITS = ((2 * _MINUTE, _SECOND, "s"), (2 * _HOUR, _MINUTE, "min"), (2 * _DAY, _HOUR, "h"))
_REASON_CHARACTERS = 200


class QuestionKind(Enum):
    """The kind of subject a question is about."""

    ID = "id"
    KEY = "key"
    GROUP = "group"


class Code(Enum):
    """Why something is not delivered, or that it is."""

    NOT_DUE = "not_due"  # it is scheduled for later
    NOT_SEQUENCED = "not_sequenced"  # it is staged, but not in the log yet
    OPEN_TRANSACTION = "open_transaction"  # it was not found, but a transaction that may hold it is open
    PARKED = "parked"  # it failed or was snoozed, and its retry is not due yet
    HELD = "held"  # it is a dead letter, and its key waits for a person
    DEAD = "dead"  # it is a dead letter, and later records of its key flow
    DISCARDED = "discarded"  # a person discarded its dead letter
    BEHIND = "behind"  # an earlier record of its key comes first
    GROWN = "grown"  # its topic has grown, and earlier records in another partition come first
    BEYOND_END = "beyond_end"  # the group is beyond the end of the log, which was restored from a backup
    PAUSED = "paused"  # a person has paused the group
    NO_MEMBER = "no_member"  # no living process works on its partition
    GIVEN_UP = "given_up"  # the process on its partition has given the group up: too many calls hang
    STOPPED = "stopped"  # the process that works on its partition is stopped
    TROUBLE = "trouble"  # the process that works on its partition keeps failing
    NEW_TOPIC = "new_topic"  # the group has no cursor in its topic yet
    FILTER_DIFFERS = "filter_differs"  # the living members have other handlers than the group
    NO_HANDLER = "no_handler"  # no handler wants it
    BOUNDS = "bounds"  # too many records wait: no more are taken from the log
    CAREFUL = "careful"  # after crashes, records are handed out a few at a time, or alone
    SLOW_HANDLER = "slow_handler"  # its handler has been running for long
    RATE = "rate"  # the rate of its handler is used up
    BUSY = "busy"  # no thread is free for it, or its handler takes no more calls at once
    IN_WORK = "in_work"  # its call runs, or its turn comes next
    DELIVERED = "delivered"  # the group has passed it
    GONE = "gone"  # retention deleted it
    ERASED = "erased"  # a person erased it
    CANCELLED = "cancelled"  # a person cancelled it before it was due
    UNKNOWN = "unknown"  # nothing of that name was found

    @property
    def waits(self) -> bool:
        """Whether the subject still has something to deliver."""
        return self not in (*_OVER, *_STUCK)


_OVER = (Code.DISCARDED, Code.DELIVERED, Code.GONE, Code.ERASED, Code.CANCELLED)
_STUCK = (Code.HELD, Code.DEAD, Code.NO_HANDLER, Code.UNKNOWN, Code.OPEN_TRANSACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why a subject has not been delivered to one group; `group` is None if the answer holds for all.

    `since`: when that began. `until`: when it ends without action. Both None if unknown. `commands` resolve
    it. `also`: further obstacles. `id` is the record in question, and `place` its TOPIC/PARTITION/OFFSET once
    it is in the log; for a group, `place` is the topic. `unsettled`: for a key, how many of its records the
    group has not settled, dead letters included.
    """

    subject: str
    kind: QuestionKind
    group: str | None = None
    code: Code
    sentence: str
    since: datetime | None = None
    until: datetime | None = None
    commands: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    id: str | None = None
    place: str | None = None
    unsettled: int = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its sentence without the full stop, its times, commands and further reasons."""

    code: Code
    sentence: str
    since_ms: int | None = None
    until_ms: int | None = None
    commands: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def with_others(reason: Reason, others: list[Reason]) -> Reason:
    """Return a reason with others that would apply once it is resolved."""
    commands = reason.commands + tuple(each for other in others for each in other.commands)
    also = reason.also + tuple(other.sentence for other in others)
    return replace(reason, commands=tuple(dict.fromkeys(commands)), also=also)


# -- times, counts and errors in sentences


def ahead(ms: int, now_ms: int) -> str:
    """Return a future moment: the time until it, and its clock time."""
    return f"in {lasting(ms - now_ms, up=True)} ({_at(ms, now_ms)})"


def ago(ms: int, now_ms: int) -> str:
    """Return a past moment: how long ago, and its clock time."""
    span = now_ms - ms
    return f"{'just now' if span < _SECOND else f'{lasting(span)} ago'} ({_at(ms, now_ms)})"


def times(count: int) -> str:
    """Return a number of times in words."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number of things."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def short(reason: str) -> str:
    """Return a reason on one line, cut if it is long."""
    line = " ".join(reason.split())
    return line if len(line) <= _REASON_CHARACTERS else line[: _REASON_CHARACTERS - 1] + "…"


def lasting(ms: int, *, up: bool = False) -> str:
    """Return a duration in its largest fitting unit; `up`: rounded up, otherwise down."""
    ms = max(0, ms)
    for below, unit, name in _UNITS:
        if ms < below:
            return f"{-(-ms // unit) if up else ms // unit} {name}"
    return f"{-(-ms // _DAY) if up else ms // _DAY} days"


def _at(ms: int, now_ms: int) -> str:
    moment, today = from_ms(ms), from_ms(now_ms).date()
    return f"{moment:%H:%M:%S} UTC" if moment.date() == today else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
