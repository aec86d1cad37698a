"""The sentences: what each reason reads like. Which one counts is decided by those who call."""

from shlex import quote

from penstock.delivery.trial import ALONE_DEATHS, Trial
from penstock.delivery.wait_state import WaitState
from penstock.membership.filters import Filter, have_nothing_in_common
from penstock.membership.status import CallStatus, LimitStatus
from penstock.worker.group import bounds

from .answer import QuestionKind
from .finding import Logged, UnloggedEvent
from .history import CANCEL, Act
from .members import Served
from .standing import FormerWork, Lane, Letter, Standing, StoredGroup
from .wording import ago, ahead, counted, lasting, short, times

WORKER = "penstock worker MODULE:OUTBOX"
LATE = (
    "register a handler for it: a worker that has one delivers it late by itself if it is no older than "
    "processing.catch_up, and otherwise after `penstock groups catch-up`"
)
ASKED = "the group has one now, and delivers it late if you ask for it"


def named(record: Logged | UnloggedEvent, kind: QuestionKind) -> str:
    """Return what the sentence is about: the key that was asked for, or the record."""
    if kind is QuestionKind.KEY and record.key is not None:
        return record.key
    return record.id if record.key is None else f"{record.id} (key {record.key})"


def it(record: Logged, kind: QuestionKind) -> str:
    """Return the record, in a sentence that has named it or its key."""
    return f"its record {record.place}" if kind is QuestionKind.KEY else "it"


# -- what a lane waits for


def failed(lane: Lane) -> str:
    """Return what became of the head of a waiting lane."""
    if lane.state is WaitState.SNOOZED:
        return "was put off by its handler"
    if lane.state is WaitState.REQUEUED:
        return "was requeued"
    if lane.state is WaitState.LAST:
        return "was requeued, to follow the other waiting records of its key"
    if lane.state is WaitState.MOVED:
        return "waits for what is left of its key in the partition where it was before the topic grew"
    if lane.state is WaitState.SLOW and lane.late:
        return "is delivered late, because the group had no handler for its type before"
    if lane.state is WaitState.SLOW:
        return "waits for its turn, because the records of its key come faster than its handler takes them"
    if not lane.failures:
        return short(lane.reason)  # nothing that its handler said
    return f"failed {times(lane.failures)} ({short(lane.reason)})"


def again(lane: Lane, now_ms: int, *, hindered: bool) -> str:
    """Return what became of the head of a lane, and when it is tried again."""
    if lane.due_ms > now_ms:
        return f"{failed(lane)} and is {'due' if hindered else 'tried again'} {ahead(lane.due_ms, now_ms)}"
    if lane.state in (WaitState.SLOW, WaitState.LAST, WaitState.MOVED):
        return failed(lane)
    return f"{failed(lane)} and is tried again now"


def died(letter: Letter, now_ms: int) -> str:
    """Return what became of a dead letter."""
    after = f" after {counted(letter.failures, 'failure')}" if letter.failures else ""
    return f"became a dead letter {ago(letter.died_ms, now_ms)}{after} ({short(letter.reason)})"


def fell_back(standing: Standing, now_ms: int) -> str:
    """Return when a fallback completed a record, and what its handler had said."""
    fallback = standing.fallback
    assert fallback is not None
    failures = counted(fallback.failures, "failure")
    return f"{ago(fallback.completed_ms, now_ms)}, after {failures} ({short(fallback.reason)})"


def done(act: Act, now_ms: int) -> str:
    """Return when a person did something, and who."""
    verb = "cancelled" if act.action == CANCEL else "discarded"
    return f"{verb} {ago(act.at_ms, now_ms)} by {act.actor}"


# -- what is in the way of a whole group


def paused(group: StoredGroup, now_ms: int) -> str:
    """Return that a group is paused."""
    assert group.paused_ms is not None
    return f"the group was paused {ago(group.paused_ms, now_ms)}"


def unserved(group: StoredGroup, served: Served, where: str, now_ms: int) -> str:
    """Return that nobody works on something, and who did."""
    if served.lapsed:
        seen = f"; {', and '.join(served.lapsed[:2])}"
    else:
        seen = f"; the group last had one {ago(group.seen_ms, now_ms)}" if group.seen_ms else ""
    return f"no living member works on {where}{seen}"


def stopped(name: str, where: str) -> str:
    """Return that a process is stopped."""
    return (
        f"{name} works on {where}, and its process is stopped, by a signal or a debugger; when its lease has "
        "run out, another worker takes over"
    )


def troubled(name: str, what: str, error: str) -> str:
    """Return that a process tries something again and again."""
    return f"{name} cannot {what} and tries again: {short(error)}"


def given_up(group: StoredGroup, served: Served, calls: str) -> str:
    """Return that a process does not serve a group, because of calls that hang."""
    return (
        f"{served.name} has given group {group.name} up: {calls}; restart that process, or start another "
        "worker, and give what the handler waits for a time limit of its own"
    )


def pinned(count: int, where: str) -> str:
    """Return that members are there, for other partitions."""
    return f"no member works on {where}: {_those(count)} pinned to other partitions (--partitions)"


def differs(group: StoredGroup, count: int) -> str:
    """Return that members are there, with other handlers."""
    filter = ", ".join(group.filters[0]) if group.filters else "none"
    have = "that serves it has" if count == 1 else "that serve it have"
    return (
        f"{counted(count, 'living member')} {have} other handlers than the group counts with ({filter}), as "
        "during a rolling deploy; the group takes over the new handlers within seconds, once no member with "
        "the old ones is left"
    )


def full(lanes: int, entries: int) -> str:
    """Return that too much waits."""
    return (
        f"{counted(lanes, 'key')} with {counted(entries, 'record')} wait already in the partitions of "
        f"the same member; above {bounds.LANES_BOUND:,} keys or {bounds.ENTRIES_BOUND:,} records it reads "
        "nothing more, until some of them are delivered, requeued or discarded"
    )


# -- where a record is


def careful(standing: Standing) -> str:
    """Return that a partition is worked with care, or the record alone."""
    trial, record = standing.cursor.trial, standing.record
    alone = trial.alone.get(record.offset)
    if alone is None:
        return f"{by_few(record.topic.name, record.partition, trial)}; {before(standing)}"
    return (
        f"it was in work when {counted(trial.deaths, 'worker')} died, so it waits for its turn to be tried "
        f"alone; {counted(alone, 'worker')} died while it was alone at work, and after {ALONE_DEATHS} its "
        "key is put off"
    )


def by_few(topic: str, partition: int, trial: Trial) -> str:
    """Return that only a few records of a partition are in work at once."""
    return (
        f"{counted(trial.deaths, 'worker')} died at work on {topic}/{partition}, so its records are tried "
        "a few at a time until the cause is found"
    )


def grown(standing: Standing, former: FormerWork) -> str:
    """Return that a partition is not read before another one, since the topic has grown."""
    record = standing.record
    topic, count = record.topic.name, former.open
    return (
        f"{topic} has grown, and {topic}/{record.partition} is read once the group is past "
        f"{topic}/{former.partition}/{former.end}, where its keys were before; {counted(count, 'record')} "
        f"{'is' if count == 1 else 'are'} to be done there"
    )


def in_call(call: CallStatus, now_ms: int, what: str) -> str:
    """Return that a handler is at work on a record, and for how long it may be."""
    limit = call.timeout_seconds
    until = "it has no time limit" if limit is None else f"its time limit is {limit:g} s"
    return f"handler {call.handler} has been at work on {what} for {lasting(now_ms - call.since_ms)}; {until}"


def on_trial(name: str, since_ms: int, now_ms: int) -> str:
    """Return that a process begins nothing else, for a record that is tried alone."""
    return (
        f"{name} has begun nothing new for {lasting(now_ms - since_ms)}, so that a record which may have "
        "killed a worker is tried alone; it goes on after some seconds"
    )


def limited(limit: LimitStatus, now_ms: int) -> str:
    """Return that records wait at the bound of their handler."""
    count = f"{counted(limit.waiting, 'record')} {'waits' if limit.waiting == 1 else 'wait'}"
    text = f"{count} at handler {limit.handler}, which is limited to {limit.bound}"
    return text if limit.until_ms is None else f"{text}; the next may begin {ahead(limit.until_ms, now_ms)}"


def before(standing: Standing) -> str:
    """Return how many records come before one."""
    count = standing.cursor.open_before(standing.record.offset)
    where = f"{standing.record.topic.name}/{standing.record.partition}"
    if not count:
        return f"nothing comes before it in {where}"
    return f"{counted(count, 'record')} of {where} {'comes' if count == 1 else 'come'} before it"


def passed_over(standing: Standing) -> str:
    """Return that no handler of a group wants a record."""
    record, group = standing.record, standing.group
    filter = f" ({', '.join(group.filters[0])})" if group.filters else ""
    end = "it was passed over" if standing.passed else "it will be passed over"
    return f"none of its handlers{filter} takes the type {record.type}; {end}{_rival(group, standing.rival)}"


def _rival(group: StoredGroup, rival: tuple[str, Filter] | None) -> str:
    """Return that a member does have a handler for a type, and why it is not asked."""
    if rival is None:
        return ""
    name, filter = rival
    has = f"{name} has a handler for it ({', '.join(filter)})"
    if group.filters and have_nothing_in_common(group.filters[0], filter):
        return f"; {has}: these seem to be two programs under one group name, so give each a name of its own"
    return f"; {has}, which counts once no member with the group's present handlers is left"


def was_passed_over(type: str) -> str:
    """Return that a record was passed over, though there may be a handler for it now."""
    return f"the group had no handler for the type {type} when it passed it"


# -- commands


def decide(group: StoredGroup, letter: Letter) -> tuple[str, ...]:
    """Return the commands that decide on a dead letter."""
    which = f"--group {quote(group.name)} --id {quote(letter.id)}"
    return f"penstock dead requeue {which}", f"penstock dead discard {which}"


def catch_up(group: StoredGroup, type: str) -> str:
    """Return the command that has what was passed over of a type delivered."""
    return f"penstock groups catch-up {quote(group.name)} --type {quote(type)}"


def resume(group: StoredGroup) -> str:
    """Return the command that lets a group go on."""
    return f"penstock groups resume {quote(group.name)}"


def resume_process(served: Served) -> str:
    """Return the command that lets a stopped process go on."""
    return f"kill -CONT {served.pid}"


def list_dead(group: StoredGroup) -> str:
    """Return the command that lists dead letters."""
    return f"penstock dead list --group {quote(group.name)}"


def list_lanes(group: StoredGroup, *, held: bool = False) -> str:
    """Return the command that lists what waits."""
    return f"penstock lanes --group {quote(group.name)}" + (" --held" if held else "")


def _those(count: int) -> str:
    return "the one that serves the group is" if count == 1 else f"the {count:,} that serve the group are"
