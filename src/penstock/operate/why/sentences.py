"""The sentences that several reasons share, and the commands that they name. The callers choose the reason."""

from shlex import quote

from penstock.delivery.cursor_state import Trial
from penstock.delivery.lane import WaitState
from penstock.membership.filters import have_nothing_in_common
from penstock.membership.serving import CallStatus
from penstock.worker.group import bounds

from .answer import QuestionKind, ago, ahead, counted, lasting, short, times
from .finder import Logged, UnloggedEvent
from .history import CANCEL, Act
from .record_case import Lane, Letter, RecordCase, StoredGroup

WORKER = "penstock worker MODULE:OUTBOX"


def named(record: Logged | UnloggedEvent, kind: QuestionKind) -> str:
    """Return the subject of a sentence: the key of the question, or the record."""
    if kind is QuestionKind.KEY and record.key is not None:
        return record.key
    return record.id if record.key is None else f"{record.id} (key {record.key})"


def failed(lane: Lane) -> str:
    """Return why the head of a lane waits."""
    match lane.state:
        case WaitState.SNOOZED:
            return "was snoozed by its handler"
        case WaitState.REQUEUED:
            return "was requeued"
        case WaitState.LAST:
            return "was requeued, to follow the other waiting records of its key"
        case WaitState.MOVED:
            return "waits for the earlier records of its key in the partition it was in before the topic grew"
        case WaitState.SLOW if lane.late:
            return "is delivered late, because the group had no handler for its type before"
        case WaitState.SLOW:
            return "waits for its turn, because the records of its key come faster than its handler takes them"
    if not lane.failures:
        return short(lane.reason)  # not a failure of its handler
    return f"failed {times(lane.failures)} ({short(lane.reason)})"


def again(lane: Lane, now_ms: int, *, hindered: bool) -> str:
    """Return why the head of a lane waits, and when it is tried again."""
    if lane.due_ms > now_ms:
        return f"{failed(lane)} and is {'due' if hindered else 'tried again'} {ahead(lane.due_ms, now_ms)}"
    if lane.state in (WaitState.SLOW, WaitState.LAST, WaitState.MOVED):
        return failed(lane)
    return f"{failed(lane)} and is tried again now"


def died(letter: Letter, now_ms: int) -> str:
    """Return when and why a record became a dead letter."""
    after = f" after {counted(letter.failures, 'failure')}" if letter.failures else ""
    return f"became a dead letter {ago(letter.died_ms, now_ms)}{after} ({short(letter.reason)})"


def done(act: Act, now_ms: int) -> str:
    """Return when an act was done, and by whom."""
    verb = "cancelled" if act.action == CANCEL else "discarded"
    return f"{verb} {ago(act.at_ms, now_ms)} by {act.actor}"


def stopped(name: str, where: str) -> str:
    """Say that a process is stopped."""
    return (
        f"{name} works on {where}, and its process is stopped, by a signal or a debugger; when its lease "
        "expires, another worker takes over"
    )


def troubled(name: str, what: str, error: str) -> str:
    """Say that a process keeps retrying something."""
    return f"{name} cannot {what} and retries: {short(error)}"


def full(lanes: int, entries: int) -> str:
    """Say that too many records wait."""
    return (
        f"{counted(lanes, 'key')} with {counted(entries, 'record')} wait already in the partitions of "
        f"the same member; above {bounds.LANES_BOUND:,} keys or {bounds.ENTRIES_BOUND:,} records it reads "
        "no more, until some of them are delivered, requeued or discarded"
    )


def by_few(topic: str, partition: int, trial: Trial) -> str:
    """Say that only a few records of a partition are tried at once."""
    return (
        f"{counted(trial.deaths, 'worker')} died at work on {topic}/{partition}, so its records are tried "
        "a few at a time until the cause is found"
    )


def in_call(call: CallStatus, now_ms: int, what: str) -> str:
    """Say how long a handler has been working on a record, and its time limit."""
    limit = call.timeout_seconds
    until = "it has no time limit" if limit is None else f"its time limit is {limit:g} s"
    return f"handler {call.handler} has been working on {what} for {lasting(now_ms - call.since_ms)}; {until}"


def before(case: RecordCase) -> str:
    """Say how many records come before one."""
    count = case.cursor.done.open_below(case.record.offset)
    where = f"{case.record.topic.name}/{case.record.partition}"
    if not count:
        return f"no record comes before it in {where}"
    return counted(count, f"record of {where} comes before it", f"records of {where} come before it")


def passed_over(case: RecordCase) -> str:
    """Say that no handler of a group wants a record, and why a member that has one gets no records."""
    record, group, rival = case.record, case.group, ""
    filter = f" ({', '.join(group.filters[0])})" if group.filters else ""
    end = "it was passed over" if case.passed else "it will be passed over"
    if case.rival is not None:
        name, its_filter = case.rival
        rival = f"; {name} has a handler for it ({', '.join(its_filter)})"
        if group.filters and have_nothing_in_common(group.filters[0], its_filter):
            rival += ": these seem to be two programs under one group name, so give each its own"
        else:
            rival += ", which applies once no member with the group's current handlers is left"
    return f"none of its handlers{filter} takes the type {record.type}; {end}{rival}"


# -- commands


def of_group(command: str, group: StoredGroup, *more: str) -> str:
    """Return a command about a group; `more`: its further options, each before its value."""
    return " ".join(["penstock", command, "--group", *map(quote, (group.name, *more))])


def decide(group: StoredGroup, letter: Letter) -> tuple[str, ...]:
    """Return the commands that decide on a dead letter."""
    return tuple(of_group(f"dead {verb}", group, "--id", letter.id) for verb in ("requeue", "discard"))
