"""Chooses the reason why a record waits in a group, or for a reader that is not one. No I/O.

| state of the record in the group         | reason                                               |
|------------------------------------------|------------------------------------------------------|
| passed, a dead letter                    | held if it holds its key, else dead                  |
| passed                                   | delivered, discarded, or passed over: no handler     |
| passed over, now with a handler          | in work: it is delivered late                        |
| its key waits for a time or a person     | parked or behind; obstacles of the group are added   |
| its key was elsewhere before a growth    | behind the records of its key there, or grown        |
| no handler wants it                      | no handler                                           |
| undelivered, and the group has obstacles | paused, no member, given up, stopped, filter differs |
| unread in the log, too many others wait  | bounds                                               |
| its worker crashed                       | careful                                              |
| an earlier record of its key waits       | behind                                               |
| its member's status gives the reason     | slow handler, rate, busy                             |
| otherwise                                | in work                                              |
"""

from dataclasses import replace
from shlex import quote

from penstock.delivery.cursor_state import ALONE_DEATHS
from penstock.delivery.notes import OPEN, Note
from penstock.log.contract import Log, Position
from penstock.membership.filters import wanted
from penstock.worker.group import bounds

from ..progress import LogReader, progress_on
from . import sentences as say
from .answer import Code, QuestionKind, Reason, ago, counted, short, with_others
from .finder import Logged
from .member_reasons import busy, call_at, hanging, troubled
from .members import Served, Service
from .record_case import Lane, RecordCase, StoredGroup


def explain(case: RecordCase, kind: QuestionKind, now_ms: int) -> Reason:
    """Return why a record has not been delivered to a group, or that it has."""
    record, group = case.record, case.group
    who, name = say.named(record, kind), f"group {group.name}"
    if case.passed:
        return _ended(case, kind, who, now_ms)
    if not case.entry and wanted(group.filters[:1], record.topic.name, record.type) is False:
        return Reason(Code.NO_HANDLER, f"{who} is not for {name}: {say.passed_over(case)}")
    hindered = hindrances(group, case.served, f"{record.topic.name}/{record.partition}", now_ms)
    resting = _resting(case, kind, who, now_ms, bool(hindered))
    resting = resting or _grown(case, who, now_ms, bool(hindered))
    if resting is not None:
        return with_others(resting, hindered)
    if hindered:
        first, *rest = hindered
        return with_others(replace(first, sentence=f"{who} waits in {name}: {first.sentence}"), rest)
    return _flowing(case, kind, who, now_ms)


def hindrances(group: StoredGroup, served: Served, where: str, now_ms: int) -> list[Reason]:
    """Return the obstacles to a group's work on a partition, the most lasting first."""
    found, worker = [], (say.WORKER,)
    if group.paused_ms is not None:
        text, resume = (
            f"the group was paused {ago(group.paused_ms, now_ms)}",
            f"penstock groups resume {quote(group.name)}",
        )
        found.append(Reason(Code.PAUSED, text, since_ms=group.paused_ms, commands=(resume,)))
    match served.service:
        case Service.NONE:
            seen = f"; the group last had one {ago(group.seen_ms, now_ms)}" if group.seen_ms else ""
            seen = f"; {', and '.join(served.lapsed[:2])}" if served.lapsed else seen
            text = f"no living member works on {where}{seen}"
            found.append(Reason(Code.NO_MEMBER, text, since_ms=group.seen_ms or None, commands=worker))
        case Service.GIVEN_UP:
            text = (
                f"{served.name} has given group {group.name} up: {hanging(served, group.name, now_ms)}; restart that "
                "process, or start another worker, and set a time limit on the call in which the handler hangs"
            )
            since_ms = served.status.group(group.name).since_ms
            found.append(Reason(Code.GIVEN_UP, text, since_ms=since_ms, commands=worker))
        case Service.PINNED:
            others = f"the {served.others:,} that serve the group are"
            others = "the one that serves the group is" if served.others == 1 else others
            text = f"no member works on {where}: {others} pinned to other partitions (--partitions)"
            found.append(Reason(Code.NO_MEMBER, text, commands=worker))
        case Service.DIFFERS:
            members = counted(served.others, "living member that serves it has", "living members that serve it have")
            filter = ", ".join(group.filters[0]) if group.filters else "none"
            text = (
                f"{members} handlers other than the group's ({filter}), as during a rolling deploy; the group takes "
                "over the new handlers within seconds, once no member with the old ones is left"
            )
            found.append(Reason(Code.FILTER_DIFFERS, text))
    trouble = troubled(served, where)
    return found if trouble is None else [*found, trouble]


def _ended(case: RecordCase, kind: QuestionKind, who: str, now_ms: int) -> Reason:
    record, group, letter = case.record, case.group, case.letter
    it, name = _it(record, kind), f"group {group.name}"
    if letter is not None:
        since, commands = letter.died_ms, say.decide(group, letter)
        what = f"{it} {say.died(letter, now_ms)}"
        if letter.holding and case.lane is not None and case.lane.held:
            end = f"later records of its {case.lane.of} wait until you requeue or discard it"
            return Reason(Code.HELD, f"{who} is held in {name}: {what}; {end}", since, None, commands)
        end = "" if record.key is None else "; later records of its key are not blocked"
        return Reason(Code.DEAD, f"{who} was given up in {name}: {what}{end}", since, None, commands)
    if case.discard is not None:
        text = f"{who} was a dead letter in {name}, {say.done(case.discard, now_ms)}"
        return Reason(Code.DISCARDED, text, case.discard.at_ms)
    if case.note is not None:
        return _noted(case, case.note, who, now_ms)
    if wanted(group.filters, record.topic.name, record.type) is False:
        return Reason(Code.NO_HANDLER, f"{who} is not for {name}: {say.passed_over(case)}")
    if case.fallback is not None:
        since, failures = case.fallback.completed_ms, counted(case.fallback.failures, "failure")
        text = f"{who} was completed in {name} by the fallback of its handler, {ago(since, now_ms)}, after {failures}"
        return Reason(Code.DELIVERED, f"{text} ({short(case.fallback.reason)})", since)
    if kind is QuestionKind.KEY:
        text = f"no record of {who} waits in {name}: the last one, {record.place}, was delivered"
    else:
        text = f"{who} was delivered to {name}, which has passed {record.place}"
    unless = f", unless {' or '.join(case.doubts)}" if case.doubts else ""
    return Reason(Code.DELIVERED, text + unless)


def _noted(case: RecordCase, note: Note, who: str, now_ms: int) -> Reason:
    """Explain a record that was passed over for lack of a handler for its type."""
    group, topic, type = case.group, case.record.topic.name, case.record.type
    name, passed = f"group {group.name}", f"the group had no handler for the type {type} when it passed it"
    if note.is_coming:
        text = f"{who} waits to be delivered late in {name}: {passed}"
        place = f"{topic}/{case.record.partition}"
        return with_others(Reason(Code.IN_WORK, text), hindrances(group, case.served, place, now_ms))
    unknown = not group.filters and note.until == OPEN
    if unknown or wanted(group.filters[:1], topic, type) is False:
        text = (
            f"{who} is not for {name}: {say.passed_over(case)}; register a handler for it: a worker with one then "
            "delivers it late if it is no older than processing.catch_up; otherwise run `penstock groups catch-up`"
        )
        return Reason(Code.NO_HANDLER, text, commands=(say.WORKER,))
    text = f"{who} was not delivered to {name}: {passed}; the group has one now, and delivers it late on request"
    command = f"penstock groups catch-up {quote(group.name)} --type {quote(type)}"
    return Reason(Code.NO_HANDLER, text, commands=(command,))


def _resting(case: RecordCase, kind: QuestionKind, who: str, now_ms: int, hindered: bool) -> Reason | None:
    """Explain a record whose key waits for a time or a person; None if it waits for neither."""
    lane, record, group, holder = case.lane, case.record, case.group, case.holder
    if lane is None:
        return None
    waits = f"{who} waits in group {group.name}"
    if lane.held:
        if holder is None:
            return Reason(Code.BEHIND, f"{waits}: its {lane.of} is held for a person to decide")
        place = _beside(record, holder.offset)
        died = say.died(holder, now_ms)
        text = f"{waits} behind {place} of the same {lane.of}, which {died} and holds the {lane.of}"
        return Reason(Code.BEHIND, text, holder.died_ms, None, say.decide(group, holder))
    if lane.due_ms <= now_ms or lane.head is None:
        return None
    state = say.again(lane, now_ms, hindered=hindered)
    if lane.head == record.offset:
        return Reason(Code.PARKED, f"{waits}: {_it(record, kind)} {state}", until_ms=lane.due_ms)
    text = f"{waits} behind {_head(record, lane)}, which {state}"
    return Reason(Code.BEHIND, text, until_ms=lane.due_ms)


def _grown(case: RecordCase, who: str, now_ms: int, hindered: bool) -> Reason | None:
    """Explain a record that waits for the partition that held its key before the topic grew."""
    record, group, former = case.record, case.group, case.former
    if former is None:
        return None
    waits, lane, holder = f"{who} waits in group {group.name}", former.lane, former.holder
    place = f"{record.topic.name}/{former.partition}"
    if lane is not None and lane.held and holder is not None:
        state = f"{say.died(holder, now_ms)} and holds the {lane.of}"
        text = f"{waits} behind {place}/{holder.offset} of the same {lane.of}, which {state}"
        return Reason(Code.BEHIND, text, holder.died_ms, None, say.decide(group, holder))
    if lane is not None and lane.head is not None:
        state, until_ms = say.again(lane, now_ms, hindered=hindered), lane.due_ms or None
        text = f"{waits} behind {place}/{lane.head} of the same key, which {state}"
        return Reason(Code.BEHIND, text, until_ms=until_ms)
    to_do = counted(former.open, "record is to be done there", "records are to be done there")
    text = (
        f"{waits}: {record.topic.name} has grown, and {record.topic.name}/{record.partition} is read once the group "
        f"has passed {place}/{former.end}, where its keys were before; {to_do}"
    )
    return Reason(Code.GROWN, text)


def _flowing(case: RecordCase, kind: QuestionKind, who: str, now_ms: int) -> Reason:
    """Explain a record that waits only for its turn."""
    record, lane, name = case.record, case.lane, f"group {case.group.name}"
    waits = f"{who} waits in {name}"
    lanes, entries = case.waiting_lanes, case.waiting_entries
    if lanes > bounds.LANES_BOUND or entries > bounds.ENTRIES_BOUND:
        commands = (say.of_group("lanes", case.group),)
        return Reason(Code.BOUNDS, f"{waits}: {say.full(lanes, entries)}", commands=commands)
    trial = case.cursor.trial
    alone = trial.alone.get(record.offset)
    if alone is not None:
        text = (
            f"{waits}: it was being handled when {counted(trial.deaths, 'worker')} died, so it waits to be tried "
            f"alone; {counted(alone, 'worker')} died while it was tried alone, and after {ALONE_DEATHS} its key is "
            "parked"
        )
        return Reason(Code.CAREFUL, text)
    if trial.goes_by_few:
        by_few = say.by_few(record.topic.name, record.partition, trial)
        return Reason(Code.CAREFUL, f"{waits}: {by_few}; {say.before(case)}")
    by = f"{case.served.name} works on it" if case.served.member else "a member is about to take it"
    if lane is not None and lane.head is not None and lane.head != record.offset:
        state = say.again(lane, now_ms, hindered=False)
        return Reason(Code.BEHIND, f"{waits} behind {_head(record, lane)}, which {state}")
    if case.earlier is not None:
        place = _beside(record, case.earlier)
        call = call_at(case.served.status.group(case.group.name), place)
        state = "is being handled" + (" or is next" if call is None else f": {say.in_call(call, now_ms, 'it')}")
        return Reason(Code.BEHIND, f"{waits} behind {place} of the same key, which {state}; {by}")
    inside = busy(case.served, case.group.name, record, now_ms)
    if inside is not None:
        others = hanging(case.served, case.group.name, now_ms)
        return replace(inside, sentence=f"{waits}: {inside.sentence}", also=(others,) if others else ())
    if lane is not None and case.entry:
        state = say.again(lane, now_ms, hindered=False)
        return Reason(Code.IN_WORK, f"{waits}: {_it(record, kind)} {state}; {by}")
    return Reason(Code.IN_WORK, f"{who} is being handled in {name}, or is next: {say.before(case)}; {by}")


def _it(record: Logged, kind: QuestionKind) -> str:
    """Return a reference to the record in a sentence that has named it or its key."""
    return f"its record {record.place}" if kind is QuestionKind.KEY else "it"


def _head(record: Logged, lane: Lane) -> str:
    assert lane.head is not None
    return f"{_beside(record, lane.head)} of the same {lane.of}"


def _beside(record: Logged, offset: int) -> str:
    return f"{record.topic.name}/{record.partition}/{offset}"


_RUN = "penstock pipeline lake --to FOLDER"


def of_record(reader: LogReader, record: Logged, kind: QuestionKind) -> Reason | None:
    """Return whether a reader has read a record; None if it does not read that partition."""
    read = reader.has_read(record.topic, Position(record.partition, record.offset))
    if read is None:
        return None
    who = say.named(record, kind)
    if read:
        return Reason(Code.DELIVERED, f"{who} is in the tables of pipeline {reader.name}")
    before = record.offset - reader.places[record.topic][record.partition]
    behind = f", {counted(before, 'record')} before it" if before else ""
    text = f"{who} waits for pipeline {reader.name}: it has not read it yet{behind}"
    return Reason(Code.IN_WORK, text, commands=(_RUN,))


def of_whole(log: Log, reader: LogReader, now_ms: int) -> list[tuple[str, Reason]]:
    """Return the progress of a reader on each of its topics."""
    found = []
    for each in progress_on(log, [reader]):
        name, oldest = each.topic.name, ""
        if each.oldest_ms is not None:
            oldest = f", the oldest published {ago(each.oldest_ms, now_ms)}"
        reason = Reason(Code.DELIVERED, f"pipeline {reader.name} has all of topic {name} in its tables")
        if each.lag:
            text = f"pipeline {reader.name} has {counted(each.lag, 'record')} of topic {name} to read{oldest}"
            text += "; retention keeps them for it"
            reason = Reason(Code.IN_WORK, text, since_ms=each.oldest_ms, commands=(_RUN,))
        found.append((name, reason))
    return found
