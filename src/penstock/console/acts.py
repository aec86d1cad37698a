"""What can be done: each act is looked at before it is done, by a dry run where there is one.

The page that asks "do it?" and the act itself are made of the same fields of a form, so what was shown is
what is done. Each step is an operation of the REST door: checked by its rules, and audited by it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidInput

from .plan import ActPlan
from .publishing import publish
from .visit import PageVisit, address
from .wording import number

MOST_PICKED = 200  # letters that are decided on one by one in one act
_DEAD_FIELDS = ("key", "type", "topic", "error")


@dataclass(frozen=True, slots=True)
class ConsoleAct:
    """One act: its word in an address, its button, and how it is planned."""

    word: str
    label: str
    plan: Callable[[PageVisit], ActPlan]


def pause_group(visit: PageVisit) -> ActPlan:
    """Give a group nothing until it is resumed."""
    name = visit.needed("name")
    return ActPlan(
        f"Pause group {name}?",
        (lambda: visit.ask("pause_group", group=name),),
        lambda found: f"{name} is paused" if found[0].changed else f"{name} was paused already",
        address("group", name=name),
        ("Its members finish what runs and take nothing more until it is resumed. Its place stays.",),
    )


def resume_group(visit: PageVisit) -> ActPlan:
    """Let a paused group go on."""
    name = visit.needed("name")
    return ActPlan(
        f"Resume group {name}?",
        (lambda: visit.ask("resume_group", group=name),),
        lambda found: f"{name} goes on" if found[0].changed else f"{name} was not paused",
        address("group", name=name),
        ("It goes on where it was.",),
    )


def move_group(visit: PageVisit) -> ActPlan:
    """Move a group on a topic; what would come again or be skipped is counted first."""
    name, topic, to = visit.needed("name"), visit.needed("topic"), visit.needed("to")
    partition = visit.text("partition")
    at = visit.text("at") if to in ("offset", "time") else to
    if at is None:
        raise InvalidInput(f"say which {to}")
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
            f"{number(would.skipped)} records are passed over unread.",
            f"{number(would.partitions)} partitions are concerned.",
        ),
        is_harsh=bool(would.skipped),
    )


def _target(to: str, at: str) -> str | int:
    if to == "offset":
        if not (at.isascii() and at.isdecimal() and len(at) < 19):
            raise InvalidInput("an offset is a whole number")
        return int(at)
    return f"{at}Z" if to == "time" and "Z" not in at and "+" not in at else at


def requeue(visit: PageVisit) -> ActPlan:
    """Put dead letters back."""
    return _decided(visit, "requeue", "Requeue", "be delivered again", "requeued")


def skip(visit: PageVisit) -> ActPlan:
    """Let keys go on past the letters that hold them."""
    return _decided(visit, "skip", "Skip", "hold no key any more, and stay", "skipped")


def discard(visit: PageVisit) -> ActPlan:
    """Let dead letters go for good."""
    return _decided(visit, "discard", "Discard", "be let go for good", "discarded", is_harsh=True)


def _letters(count: int) -> str:
    return f"{number(count)} dead {'letter' if count == 1 else 'letters'}"


def _decided(
    visit: PageVisit, word: str, label: str, means: str, past: str, *, is_harsh: bool = False
) -> ActPlan:
    """Plan a decision on the picked letters, or on all of a group that match."""
    selections = list(_selections(visit))
    dry = [_decide(visit, word, group, said, dry_run=True) for group, said in selections]
    count, alone = sum(each.count for each in dry), sum(each.out_of_order for each in dry)
    groups = sorted({group for group, _ in selections})
    details = [f"{_letters(count)} of {', '.join(groups)} will {means}."]
    if alone:
        details.append(f"{number(alone)} of them come back out of order: their keys have gone on.")
    for _, said in selections[:1]:
        details += [f"Only {name}: {value}" for name, value in said.items() if name in _DEAD_FIELDS]
    return ActPlan(
        f"{label} {_letters(count)}?",
        tuple(
            lambda group=group, said=said: _decide(visit, word, group, said)  # type: ignore[misc]
            for group, said in selections
        ),
        lambda found: f"{_letters(sum(each.count for each in found))} {past}",
        address("failures", **{name: visit.text(name) for name in ("group", *_DEAD_FIELDS)}),
        tuple(details),
        is_harsh=is_harsh,
    )


def _selections(visit: PageVisit) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield what was picked: single letters as `GROUP/ID`, or all that match what the page shows."""
    picked = visit.query.getlist("pick")
    if len(picked) > MOST_PICKED:
        raise InvalidInput(f"{len(picked)} letters are picked, and {MOST_PICKED} are taken at a time")
    for each in picked:
        group, slash, id = str(each).rpartition("/")
        if not slash:
            raise InvalidInput("a picked letter is GROUP/ID")
        yield group, {"id": id}
    if picked:
        return
    if visit.text("all") != "1":
        raise InvalidInput("no letter is picked; pick some, or say all that match")
    said = {name: value for name in _DEAD_FIELDS if (value := visit.text(name)) is not None}
    is_narrow = bool(said.keys() - {"topic"})
    yield visit.needed("group"), {**said, **({} if is_narrow else {"all": True})}


def _decide(visit: PageVisit, word: str, group: str, said: dict[str, Any], *, dry_run: bool = False) -> Any:
    return visit.ask("decide_dead", {"decision": word, "dry_run": dry_run, **said}, group=group)


def cancel_scheduled(visit: PageVisit) -> ActPlan:
    """Take a scheduled event back."""
    id = visit.needed("id")
    event = visit.ask("show_scheduled", id=id)
    return ActPlan(
        f"Cancel {event.type}?",
        (lambda: visit.ask("cancel_scheduled", id=id),),
        lambda found: "it is cancelled" if found[0].changed else "it was on its way already",
        address("scheduled"),
        (f"It is due at {event.due_at:%Y-%m-%d %H:%M:%S} UTC and would never be delivered.",),
        is_harsh=True,
    )


def run_scheduled(visit: PageVisit) -> ActPlan:
    """Make a scheduled event due now."""
    id = visit.needed("id")
    event = visit.ask("show_scheduled", id=id)
    return ActPlan(
        f"Run {event.type} now?",
        (lambda: visit.ask("run_scheduled", id=id),),
        lambda _: "it is due now",
        address("scheduled"),
        (f"It is due at {event.due_at:%Y-%m-%d %H:%M:%S} UTC otherwise.",),
    )


def _of_schedule(word: str, question: str, means: str, past: str) -> Callable[[PageVisit], ActPlan]:
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

    plan.__doc__ = means
    return plan


ACTS = {
    each.word: each
    for each in (
        ConsoleAct("publish", "Publish", publish),
        ConsoleAct("pause-group", "Pause", pause_group),
        ConsoleAct("resume-group", "Resume", resume_group),
        ConsoleAct("move-group", "Move", move_group),
        ConsoleAct("requeue", "Requeue", requeue),
        ConsoleAct("skip", "Skip", skip),
        ConsoleAct("discard", "Discard", discard),
        ConsoleAct("cancel-scheduled", "Cancel it", cancel_scheduled),
        ConsoleAct("run-scheduled", "Run now", run_scheduled),
        ConsoleAct(
            "pause-schedule",
            "Pause",
            _of_schedule("pause", "Pause schedule {}?", "It ticks no more until it is resumed.", "is paused"),
        ),
        ConsoleAct(
            "resume-schedule",
            "Resume",
            _of_schedule("resume", "Resume schedule {}?", "It goes on with its next tick.", "goes on"),
        ),
        ConsoleAct(
            "run-schedule",
            "Run now",
            _of_schedule(
                "run", "Run schedule {} now?", "It ticks once, besides its other ticks.", "ticks now"
            ),
        ),
    )
}
