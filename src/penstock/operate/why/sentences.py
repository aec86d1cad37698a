"""The sentence of each reason. The callers choose the reason."""

from shlex import quote

from penstock.delivery.cursor_state import ALONE_DEATHS, Trial
from penstock.delivery.lane import WaitState
from penstock.membership.filters import Filter, have_nothing_in_common
from penstock.membership.serving import CallStatus, LimitStatus
from penstock.worker.group import bounds

from .answer import QuestionKind
from .finder import Logged, UnloggedEvent
from .history import CANCEL, Act
from .members import Served
from .record_case import FormerWork, Lane, Letter, RecordCase, StoredGroup
from .wording import ago, ahead, counted, lasting, short, times

WORKER = "penstock worker MODULE:OUTBOX"
LATE = (
    "register a handler for it: a worker with one then delivers it late if it is no older than "
    "processing.catch_up; otherwise run `penstock groups catch-up`"
)
ASKED = "the group has one now, and delivers it late on request"


def named(record: Logged | UnloggedEvent, kind: QuestionKind) -> str:
    """Return the subject of a sentence: the key of the question, or the record."""
    if kind is QuestionKind.KEY and record.key is not None:
        return record.key
    return record.id if record.key is None else f"{record.id} (key {record.key})"


def it(record: Logged, kind: QuestionKind) -> str:
    """Return a reference to the record in a sentence that has named it or its key."""
    return f"its record {record.place}" if kind is QuestionKind.KEY else "it"


# -- the state of a lane


def failed(lane: Lane) -> str:
    """Return why the head of a lane waits."""
    if lane.state is WaitState.SNOOZED:
        return "was snoozed by its handler"
    if lane.state is WaitState.REQUEUED:
        return "was requeued"
    if lane.state is WaitState.LAST:
        return "was requeued, to follow the other waiting records of its key"
    if lane.state is WaitState.MOVED:
        return "waits for the earlier records of its key in the partition it was in before the topic grew"
    if lane.state is WaitState.SLOW and lane.late:
        return "is delivered late, because the group had no handler for its type before"
    if lane.state is WaitState.SLOW:
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


def fell_back(case: RecordCase, now_ms: int) -> str:
    """Return when a fallback completed a record, and the last failure of its handler."""
    fallback = case.fallback
    assert fallback is not None
    failures = counted(fallback.failures, "failure")
    return f"{ago(fallback.completed_ms, now_ms)}, after {failures} ({short(fallback.reason)})"


def done(act: Act, now_ms: int) -> str:
    """Return when an act was done, and by whom."""
    verb = "cancelled" if act.action == CANCEL else "discarded"
    return f"{verb} {ago(act.at_ms, now_ms)} by {act.actor}"


# -- obstacles of a whole group


def paused(group: StoredGroup, now_ms: int) -> str:
    """Say that a group is paused."""
    assert group.paused_ms is not None
    return f"the group was paused {ago(group.paused_ms, now_ms)}"


def unserved(group: StoredGroup, served: Served, where: str, now_ms: int) -> str:
    """Say that no member works on something, and which one did."""
    if served.lapsed:
        seen = f"; {', and '.join(served.lapsed[:2])}"
    else:
        seen = f"; the group last had one {ago(group.seen_ms, now_ms)}" if group.seen_ms else ""
    return f"no living member works on {where}{seen}"


def stopped(name: str, where: str) -> str:
    """Say that a process is stopped."""
    return (
        f"{name} works on {where}, and its process is stopped, by a signal or a debugger; when its lease "
        "expires, another worker takes over"
    )


def troubled(name: str, what: str, error: str) -> str:
    """Say that a process keeps retrying something."""
    return f"{name} cannot {what} and retries: {short(error)}"


def given_up(group: StoredGroup, served: Served, calls: str) -> str:
    """Say that a process has stopped serving a group because of hanging calls."""
    return (
        f"{served.name} has given group {group.name} up: {calls}; restart that process, or start another "
        "worker, and set a time limit on the call in which the handler hangs"
    )


def pinned(count: int, where: str) -> str:
    """Say that the living members serve other partitions."""
    return f"no member works on {where}: {_those(count)} pinned to other partitions (--partitions)"


def differs(group: StoredGroup, count: int) -> str:
    """Say that the living members have other handlers."""
    filter = ", ".join(group.filters[0]) if group.filters else "none"
    have = "that serves it has" if count == 1 else "that serve it have"
    return (
        f"{counted(count, 'living member')} {have} handlers other than the group's ({filter}), as "
        "during a rolling deploy; the group takes over the new handlers within seconds, once no member with "
        "the old ones is left"
    )


def full(lanes: int, entries: int) -> str:
    """Say that too many records wait."""
    return (
        f"{counted(lanes, 'key')} with {counted(entries, 'record')} wait already in the partitions of "
        f"the same member; above {bounds.LANES_BOUND:,} keys or {bounds.ENTRIES_BOUND:,} records it reads "
        "no more, until some of them are delivered, requeued or discarded"
    )


# -- the state of a record


def careful(case: RecordCase) -> str:
    """Say that the records of a partition are tried a few at a time, or this one alone."""
    trial, record = case.cursor.trial, case.record
    alone = trial.alone.get(record.offset)
    if alone is None:
        return f"{by_few(record.topic.name, record.partition, trial)}; {before(case)}"
    return (
        f"it was being handled when {counted(trial.deaths, 'worker')} died, so it waits to be tried "
        f"alone; {counted(alone, 'worker')} died while it was tried alone, and after {ALONE_DEATHS} its "
        "key is parked"
    )


def by_few(topic: str, partition: int, trial: Trial) -> str:
    """Say that only a few records of a partition are tried at once."""
    return (
        f"{counted(trial.deaths, 'worker')} died at work on {topic}/{partition}, so its records are tried "
        "a few at a time until the cause is found"
    )


def grown(case: RecordCase, former: FormerWork) -> str:
    """Say that a partition is read only after another one, since the topic has grown."""
    record = case.record
    topic, count = record.topic.name, former.open
    return (
        f"{topic} has grown, and {topic}/{record.partition} is read once the group has passed "
        f"{topic}/{former.partition}/{former.end}, where its keys were before; {counted(count, 'record')} "
        f"{'is' if count == 1 else 'are'} to be done there"
    )


def in_call(call: CallStatus, now_ms: int, what: str) -> str:
    """Say how long a handler has been working on a record, and its time limit."""
    limit = call.timeout_seconds
    until = "it has no time limit" if limit is None else f"its time limit is {limit:g} s"
    return f"handler {call.handler} has been working on {what} for {lasting(now_ms - call.since_ms)}; {until}"


def on_trial(name: str, since_ms: int, now_ms: int) -> str:
    """Say that a process starts no other calls while a record is tried alone."""
    return (
        f"{name} has started no other calls for {lasting(now_ms - since_ms)}, so that a record that may have "
        "killed a worker is tried alone; it continues after some seconds"
    )


def limited(limit: LimitStatus, now_ms: int) -> str:
    """Say that records wait for the limit of their handler."""
    count = f"{counted(limit.waiting, 'record')} {'waits' if limit.waiting == 1 else 'wait'}"
    text = f"{count} at handler {limit.handler}, which is limited to {limit.bound}"
    return text if limit.until_ms is None else f"{text}; the next may start {ahead(limit.until_ms, now_ms)}"


def before(case: RecordCase) -> str:
    """Say how many records come before one."""
    count = case.cursor.open_before(case.record.offset)
    where = f"{case.record.topic.name}/{case.record.partition}"
    if not count:
        return f"no record comes before it in {where}"
    return f"{counted(count, 'record')} of {where} {'comes' if count == 1 else 'come'} before it"


def passed_over(case: RecordCase) -> str:
    """Say that no handler of a group wants a record."""
    record, group = case.record, case.group
    filter = f" ({', '.join(group.filters[0])})" if group.filters else ""
    end = "it was passed over" if case.passed else "it will be passed over"
    return f"none of its handlers{filter} takes the type {record.type}; {end}{_rival(group, case.rival)}"


def _rival(group: StoredGroup, rival: tuple[str, Filter] | None) -> str:
    """Say that a member does have a handler for the type, and why it gets no records."""
    if rival is None:
        return ""
    name, filter = rival
    has = f"{name} has a handler for it ({', '.join(filter)})"
    if group.filters and have_nothing_in_common(group.filters[0], filter):
        return f"; {has}: these seem to be two programs under one group name, so give each its own"
    return f"; {has}, which applies once no member with the group's current handlers is left"


def was_passed_over(type: str) -> str:
    """Say that a record was passed over, though the group may have a handler for it now."""
    return f"the group had no handler for the type {type} when it passed it"


# -- commands


def decide(group: StoredGroup, letter: Letter) -> tuple[str, ...]:
    """Return the commands that decide on a dead letter."""
    which = f"--group {quote(group.name)} --id {quote(letter.id)}"
    return f"penstock dead requeue {which}", f"penstock dead discard {which}"


def catch_up(group: StoredGroup, type: str) -> str:
    """Return the command that delivers the passed-over records of a type."""
    return f"penstock groups catch-up {quote(group.name)} --type {quote(type)}"


def resume(group: StoredGroup) -> str:
    """Return the command that resumes a group."""
    return f"penstock groups resume {quote(group.name)}"


def resume_process(served: Served) -> str:
    """Return the command that resumes a stopped process."""
    return f"kill -CONT {served.pid}"


def list_dead(group: StoredGroup) -> str:
    """Return the command that lists dead letters."""
    return f"penstock dead list --group {quote(group.name)}"


def list_lanes(group: StoredGroup, *, held: bool = False) -> str:
    """Return the command that lists waiting lanes."""
    return f"penstock lanes --group {quote(group.name)}" + (" --held" if held else "")


def _those(count: int) -> str:
    return "the one that serves the group is" if count == 1 else f"the {count:,} that serve the group are"
