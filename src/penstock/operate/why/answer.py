"""The answer to `why`: a code for programs, a sentence for people."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class QuestionKind(Enum):
    """What was asked about."""

    ID = "id"
    KEY = "key"
    GROUP = "group"


Kind = QuestionKind  # the old name


class Code(Enum):
    """Why something is not delivered, or that it is."""

    NOT_DUE = "not_due"  # it is scheduled for later
    NOT_SEQUENCED = "not_sequenced"  # it is staged, and not in the log yet
    OPEN_TRANSACTION = "open_transaction"  # it is nowhere, but a transaction that may hold it is open
    PARKED = "parked"  # it failed or was put off, and its time to be tried again has not come
    HELD = "held"  # it is a dead letter, and its key waits for a person
    DEAD = "dead"  # it is a dead letter, and its key has gone on
    DISCARDED = "discarded"  # a person let its dead letter go
    BEHIND = "behind"  # an earlier record of its key comes first
    GROWN = "grown"  # its topic has grown, and what came before it in another partition comes first
    BEYOND_END = "beyond_end"  # the group stands behind the end of the log, which was taken back
    PAUSED = "paused"  # a person has paused the group
    NO_MEMBER = "no_member"  # no living process works on its partition
    GIVEN_UP = "given_up"  # the process that did has given the group up: too many of its calls hang
    STOPPED = "stopped"  # the process that works on its partition is stopped
    TROUBLE = "trouble"  # the process that works on it fails again and again
    NEW_TOPIC = "new_topic"  # the group has no place in its topic yet
    FILTER_DIFFERS = "filter_differs"  # those that would have other handlers than the group
    NO_HANDLER = "no_handler"  # nobody wants it
    BOUNDS = "bounds"  # too much waits already: nothing more is taken from the log
    CAREFUL = "careful"  # a few records at a time, or alone, after processes died
    SLOW_HANDLER = "slow_handler"  # its handler has been at it for long
    RATE = "rate"  # the rate of its handler is used up
    BUSY = "busy"  # no thread is free for it, or its handler takes no more calls at once
    IN_WORK = "in_work"  # it is in work, or its turn comes
    DELIVERED = "delivered"  # the group is past it
    GONE = "gone"  # retention has removed it
    ERASED = "erased"  # a person has erased it
    CANCELLED = "cancelled"  # a person took it back before it was due
    UNKNOWN = "unknown"  # there is nothing of that name

    @property
    def waits(self) -> bool:
        """Whether the record or group it is about still has something to deliver."""
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
    """Why one thing has not been delivered to one group; `group` is None where all are concerned.

    `since`: when that began. `until`: when it changes by itself. Both None where nobody can know.
    `commands` change it. `also`: what would be in the way next. The record it is about is `id`, at `place`
    (TOPIC/PARTITION/OFFSET) once it is in the log; for a group, `place` is the topic. `unsettled`: for a key,
    how many of its records the group has not settled, dead letters included.
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
