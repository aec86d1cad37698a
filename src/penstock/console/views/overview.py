"""The store at a glance: rates, ages, waiting keys, members, and problems that need a person."""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.access.resource import CLUSTER, AccessRight
from penstock.gateway.rest.store import of_topics_seen
from penstock.operate.members import Presence
from penstock.operate.overview import GroupGlance, StoreOverview
from penstock.operate.overview import overview as overview_of

from ..history import Curve, Sparkline, sparkline
from ..visit import PageView, PageVisit, address
from ..wording import age, lasting, number, rate, short

_LATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure of the overview: its name, value and unit, its curve, and the page with the details."""

    id: str
    label: str
    value: str
    unit: str
    tone: str
    line: Sparkline
    link: str
    help: str


@dataclass(frozen=True, slots=True)
class Concern:
    """A problem that needs a person, and the page to go to."""

    tone: str
    text: str
    link: str


def overview(visit: PageVisit) -> PageView:
    """Show the store at a glance."""
    now = looked(visit)
    curves = visit.history.group_rates(each.name for each in now.groups[:50])
    running = [each for each in now.members if each.presence is Presence.RUNNING]
    values = {"overview": now, "tiles": list(_tiles(visit, now)), "concerns": list(_concerns(now)), "present": running}
    values["lines"] = {name: sparkline(curve) for name, curve in curves.items()}
    values["rates"] = {name: curve.last for name, curve in curves.items()}
    return PageView("overview.html", values)


def looked(visit: PageVisit, *, fresh: bool = False) -> StoreOverview:
    """Return the overview, at most a moment old; access is checked on every call."""
    call = visit.ask.call("overview")
    call.allow(AccessRight.DESCRIBE, CLUSTER)  # another visitor, who may see more topics, may have taken the kept one
    return of_topics_seen(call, visit.history.now(lambda: overview_of(call.store, clock=call.door.clock), fresh=fresh))


def _tiles(visit: PageVisit, now: StoreOverview) -> Iterator[Tile]:
    history, most = visit.history, now.counted
    into, out = history.rate(lambda each: each.logged), history.rate(lambda each: _total(each, "passed"))
    oldest = history.level(_oldest_seconds)
    late = (oldest.last or 0) > _LATE_SECONDS
    dead, running = _total(now, "dead"), _running(now)
    parked, lag = number(_total(now, "parked"), most), short(_total(now, "lag"))

    def tile(id: str, label: str, value: str, unit: str, curve: Curve, page: str, help: str, tone: str = "") -> Tile:
        return Tile(id, label, value, unit, tone, sparkline(curve), address(page), help)

    def level(name: str) -> Curve:
        return history.level(lambda each: _total(each, name))

    help = "The age of the oldest record that a group has not passed"
    staged = history.level(lambda each: each.staged)
    yield tile("in", "In", rate(into.last), "/s", into, "topics", "Events that reached the log")
    yield tile("out", "Delivered", rate(out.last), "/s", out, "groups", "Records that groups have passed")
    ago = lasting(oldest.last or 0)
    yield tile("oldest", "Oldest undelivered", ago, "", oldest, "groups", help, "warn" if late else "")
    yield tile("lag", "Lag", lag, "records", level("lag"), "groups", "Records that groups have not passed yet")
    help = "Committed, but not in the log yet"
    yield tile("staged", "Staged", number(now.staged, most), "events", staged, "groups", help)
    yield tile("parked", "Parked", parked, "keys", level("parked"), "lanes", "Keys that wait for a retry or their turn")
    help, tone = "Records that handlers gave up", "bad" if dead else ""
    yield tile("dead", "Dead", number(dead, most), "letters", level("dead"), "failures", help, tone)
    help, tone = "Processes that work on the store", "" if running else "warn"
    yield tile("members", "Members", number(running), "running", history.level(_running), "members", help, tone)


def _concerns(now: StoreOverview) -> Iterator[Concern]:
    most = now.counted
    for each in now.groups:
        link = address("group", name=each.name)
        if each.dead:
            letters = f"{number(each.dead, most)} dead {'letter' if each.dead == 1 else 'letters'}"
            held = f", and {number(each.held, most)} keys wait for a decision" if each.held else ""
            yield Concern("bad", f"{each.name} has {letters}{held}", address("failures", group=each.name))
        if each.paused_at is not None:
            yield Concern("warn", f"{each.name} is paused, for {age(each.paused_at, now.at)}", link)
        elif each.oldest_unread_at is not None and _seconds(now, each) > _LATE_SECONDS:
            behind = f"{each.name} is {age(each.oldest_unread_at, now.at)} behind ({short(each.lag)} records)"
            yield Concern("warn", behind, link)
    for member in now.members:
        if member.presence in (Presence.STOPPED, Presence.SILENT):
            yield Concern("warn", f"member {member.id[:8]} is {member.presence}", address("members"))
        for trouble in member.troubles:
            yield Concern("bad", f"member {member.id[:8]}: {trouble}", address("members"))
    if now.staged_since is not None and (now.at - now.staged_since).total_seconds() > _LATE_SECONDS:
        waits = f"events have been staged for {age(now.staged_since, now.at)} and are not in the log"
        yield Concern("bad", waits, address("members"))


def _total(now: StoreOverview, name: str) -> int:
    return sum(getattr(each, name) for each in now.groups)


def _running(now: StoreOverview) -> float:
    return sum(each.presence is Presence.RUNNING for each in now.members)


def _oldest_seconds(now: StoreOverview) -> float:
    return max((_seconds(now, each) for each in now.groups if each.oldest_unread_at is not None), default=0.0)


def _seconds(now: StoreOverview, group: GroupGlance) -> float:
    oldest = group.oldest_unread_at
    return 0.0 if oldest is None else max(0.0, (now.at - oldest).total_seconds())
