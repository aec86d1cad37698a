"""The acts: each is previewed before it is carried out, by a dry run where there is one.

The preview and the act are built from the same form fields, so an act does exactly what its preview showed.
Each step is an operation of the REST API, which checks access and writes the audit entry. Publishing adds one
record, with the access rules and limits of the REST API.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from penstock.access.resource import AccessRight, topic
from penstock.errors import InvalidInput
from penstock.model.cloudevents import content_headers
from penstock.model.content import JSON, has_json
from penstock.operate.producer import AppendedRecord, RecordWanted, publish_by_hand

from .visit import PageVisit, address
from .wording import number

LOOK = "look"  # a form with this field asks for the preview
MOST_PICKED = 200  # picked letters that one act decides on
MOST_CHARACTERS = 65_536  # of a value
_DEAD_FIELDS = ("key", "type", "topic", "error")
_TEXT = "text/plain; charset=utf-8"
ActStep = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class ActPlan:
    """The plan of an act: a question, the steps, the page to return to. `done`: from their results to a sentence."""

    question: str
    steps: tuple[ActStep, ...]
    done: Callable[[list[Any]], str]
    back: str
    details: tuple[str, ...] = ()
    is_harsh: bool = False
    fields: tuple[tuple[str, str], ...] = ()  # fields that the form has beside those of the request


@dataclass(frozen=True, slots=True)
class ConsoleAct:
    """One act: its word in the URL, its button label, and the function that plans it."""

    word: str
    label: str
    plan: Callable[[PageVisit], ActPlan]
    says: str = ""  # for the reference page of the console, where the plan has no docstring


def _of_group(says: str, word: str, label: str, means: str, changed: str, unchanged: str) -> ConsoleAct:
    def plan(visit: PageVisit) -> ActPlan:
        name = visit.needed("name")
        return ActPlan(
            f"{label} group {name}?",
            (lambda: visit.ask(f"{word}_group", group=name),),
            lambda found: f"{name} {changed if found[0].changed else unchanged}",
            address("group", name=name),
            (means,),
        )

    return ConsoleAct(f"{word}-group", label, plan, says)


def move_group(visit: PageVisit) -> ActPlan:
    """Move a group on a topic; the preview counts the records that would come again or be skipped."""
    name, topic, to = visit.needed("name"), visit.needed("topic"), visit.needed("to")
    partition = visit.text("partition")
    at = visit.text("at") if to in ("offset", "time") else to
    if at is None:
        raise InvalidInput(f"the field at is empty; enter the {to}")
    body = {"topic": topic, "to": _target(to, at), "partition": None if partition is None else int(partition)}
    would = visit.ask("move_group", {**body, "dry_run": True}, group=name)
    where = f"{topic}, partition {partition}" if partition else topic
    return ActPlan(
        f"Move group {name} on {where} to {at}?",
        (lambda: visit.ask("move_group", body, group=name),),
        lambda found: f"{name}: {number(found[0].again)} come again, {number(found[0].skipped)} are skipped",
        address("group", name=name),
        (
            f"{number(would.again)} records come again.",
            f"{number(would.skipped)} records are skipped unread.",
            f"{number(would.partitions)} partitions are affected.",
        ),
        is_harsh=bool(would.skipped),
    )


def _target(to: str, at: str) -> str | int:
    if to == "offset":
        if not (at.isascii() and at.isdecimal() and len(at) < 19):
            raise InvalidInput("an offset is a whole number")
        return int(at)
    return f"{at}Z" if to == "time" and "Z" not in at and "+" not in at else at


def _letters(count: int) -> str:
    return f"{number(count)} dead {'letter' if count == 1 else 'letters'}"


def _decision(says: str, word: str, means: str, past: str, *, is_harsh: bool = False) -> ConsoleAct:
    return ConsoleAct(word, word.capitalize(), partial(_decided, word, means, past, is_harsh), says)


def _decided(word: str, means: str, past: str, is_harsh: bool, visit: PageVisit) -> ActPlan:
    selections = list(_selections(visit))
    dry = [_decide(visit, word, group, selection, dry_run=True) for group, selection in selections]
    count, alone = sum(each.count for each in dry), sum(each.out_of_order for each in dry)
    groups = sorted({group for group, _ in selections})
    details = [f"{_letters(count)} of {', '.join(groups)} will {means}."]
    if alone:
        details.append(f"{number(alone)} of them come back out of order: later records of their keys were delivered.")
    for _, selection in selections[:1]:
        details += [f"Only {name}: {value}" for name, value in selection.items() if name in _DEAD_FIELDS]
    return ActPlan(
        f"{word.capitalize()} {_letters(count)}?",
        tuple(
            lambda group=group, selection=selection: _decide(visit, word, group, selection)  # type: ignore[misc]
            for group, selection in selections
        ),
        lambda found: f"{_letters(sum(each.count for each in found))} {past}",
        address("failures", **{name: visit.text(name) for name in ("group", *_DEAD_FIELDS)}),
        tuple(details),
        is_harsh=is_harsh,
    )


def _selections(visit: PageVisit) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the selections: letters picked one by one as `GROUP/ID`, or all that match the page's filter."""
    picked = visit.query.getlist("pick")
    if len(picked) > MOST_PICKED:
        raise InvalidInput(f"{len(picked)} letters are picked; the limit is {MOST_PICKED} at a time")
    for each in picked:
        group, slash, id = str(each).rpartition("/")
        if not slash:
            raise InvalidInput("a picked letter is GROUP/ID")
        yield group, {"id": id}
    if picked:
        return
    if visit.text("all") != "1":
        raise InvalidInput("no letter is picked; pick some, or choose all that match")
    given = {name: value for name in _DEAD_FIELDS if (value := visit.text(name)) is not None}
    is_narrow = bool(given.keys() - {"topic"})
    yield visit.needed("group"), {**given, **({} if is_narrow else {"all": True})}


def _decide(visit: PageVisit, word: str, group: str, selection: dict[str, Any], *, dry_run: bool = False) -> Any:
    return visit.ask("decide_dead", {"decision": word, "dry_run": dry_run, **selection}, group=group)


def _of_scheduled(says: str, word: str, label: str, question: str, means: str, done: str, late: str = "") -> ConsoleAct:
    """Return an act on a scheduled event. `late`: what to say if it changed nothing."""

    def plan(visit: PageVisit) -> ActPlan:
        id = visit.needed("id")
        event = visit.ask("show_scheduled", id=id)
        return ActPlan(
            question.format(event.type),
            (lambda: visit.ask(f"{word}_scheduled", id=id),),
            lambda found: done if not late or found[0].changed else late,
            address("scheduled"),
            (f"It is due at {event.due_at:%Y-%m-%d %H:%M:%S} UTC; {means}.",),
            is_harsh=bool(late),
        )

    return ConsoleAct(f"{word}-scheduled", label, plan, says)


def _of_schedule(word: str, label: str, question: str, means: str, past: str) -> ConsoleAct:
    def plan(visit: PageVisit) -> ActPlan:
        name = visit.needed("name")
        visit.ask("show_schedule", schedule=name)
        return ActPlan(
            question.format(name),
            (lambda: visit.ask(f"{word}_schedule", schedule=name),),
            lambda _: f"{name} {past}",
            address("periodic"),
            (means,),
        )

    return ConsoleAct(f"{word}-schedule", label, plan, means)


def publish(visit: PageVisit) -> ActPlan:
    """Add a record to a topic. The form has a token, so a form sent twice adds one record."""
    name, token = visit.needed("topic"), visit.text("token") or uuid4().hex
    record, is_json = _wanted(visit)
    shown = visit.ask("show_topic", topic=name)
    _publish(visit, name, record, token, dry_run=True)
    size = None if record.value is None else len(record.value)
    what = f"{'JSON' if is_json else 'Text'} of {number(size)} bytes." if size is not None else "No value."
    key = "It has no key: no order is promised." if record.key is None else f"Its key is {record.key}."
    return ActPlan(
        f"Publish {record.type or 'a record'} to {name}?",
        (lambda: _publish(visit, name, record, token),),
        lambda found: f"published: {name}/{found[0].partition}/{found[0].offset}",
        address("topic", name=name),
        (key, what, f"Groups that read {name} get it: {number(len(shown.groups))}. It cannot be taken back."),
        fields=(("token", token),),
    )


def _wanted(visit: PageVisit) -> tuple[RecordWanted, bool]:
    if visit.text("tombstone"):
        return RecordWanted(None, visit.text("type"), visit.text("key")), False
    text = str(visit.query.get("value", ""))
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(
            f"the value has {number(len(text))} characters; a page takes at most {number(MOST_CHARACTERS)}; "
            "send it with penstock produce"
        )
    if not text:
        raise InvalidInput("the field value is empty; tick No value for a record without one")
    data = text.encode("utf-8", "surrogatepass")
    is_json = has_json(data)
    headers = content_headers(JSON if is_json else _TEXT, data)
    return RecordWanted(data, visit.text("type"), visit.text("key"), headers), is_json


def _publish(
    visit: PageVisit, name: str, record: RecordWanted, token: str, *, dry_run: bool = False
) -> AppendedRecord | None:
    call = visit.ask.call("publish", record.value or b"", topic=name)
    call.allow(AccessRight.WRITE, topic(name))
    if not dry_run:
        call.admit(name)
    return publish_by_hand(call.store, name, record, token=token, actor=call.actor, dry_run=dry_run)


ACTS = {
    each.word: each
    for each in (
        ConsoleAct("publish", "Publish", publish),
        _of_group(
            "Pause a group: it gets no records until it is resumed.",
            "pause",
            "Pause",
            "Its members finish running calls and take no new records until it is resumed. Its offsets stay.",
            "is paused",
            "was paused already",
        ),
        _of_group(
            "Resume a paused group.",
            "resume",
            "Resume",
            "It continues where it stopped.",
            "is resumed",
            "was not paused",
        ),
        ConsoleAct("move-group", "Move", move_group),
        _decision("Requeue dead letters.", "requeue", "be delivered again", "requeued"),
        _decision(
            "Release the keys that dead letters hold; the letters stay.",
            "skip",
            "stay, and release their keys",
            "skipped",
        ),
        _decision("Discard dead letters for good.", "discard", "be discarded for good", "discarded", is_harsh=True),
        _of_scheduled(
            "Cancel a scheduled event.",
            "cancel",
            "Cancel it",
            "Cancel {}?",
            "cancelled, it is never delivered",
            "it is cancelled",
            "too late: it is no longer scheduled",
        ),
        _of_scheduled(
            "Make a scheduled event due now.", "run", "Run now", "Run {} now?", "it runs now instead", "it is due now"
        ),
        _of_schedule("pause", "Pause", "Pause schedule {}?", "It does not tick until it is resumed.", "is paused"),
        _of_schedule("resume", "Resume", "Resume schedule {}?", "It continues with its next tick.", "is resumed"),
        _of_schedule(
            "run", "Run now", "Run schedule {} now?", "It ticks once, in addition to its regular ticks.", "ticks now"
        ),
    )
}
