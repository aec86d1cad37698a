"""The answer to `why`, a code for programs and a sentence for people, and the reason in it."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum


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
        return self not in _ENDS


_ENDS = (
    Code.HELD,
    Code.DEAD,
    Code.DISCARDED,
    Code.NO_HANDLER,
    Code.DELIVERED,
    Code.GONE,
    Code.ERASED,
    Code.CANCELLED,
    Code.UNKNOWN,
    Code.OPEN_TRANSACTION,
)


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
