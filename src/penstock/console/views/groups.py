"""The groups, and one group: its offsets, waiting keys and members, and why it makes no progress."""

from penstock.errors import InvalidInput, UnknownGroup

from ..visit import PageView, PageVisit
from .overview import looked

_LANES = 20
_CURSORS = 1000
_SHOWN_CURSORS = 24  # those that are furthest behind


def groups(visit: PageVisit) -> PageView:
    """List the groups."""
    return PageView("groups.html", {"overview": looked(visit)})


def group(visit: PageVisit) -> PageView:
    """Show one group."""
    name = visit.text("name")
    if name is None:
        raise InvalidInput("the address names no group")
    now = looked(visit)
    glance = next((each for each in now.groups if each.name == name), None)
    if glance is None:
        now = looked(visit, fresh=True)
        glance = next((each for each in now.groups if each.name == name), None)
    if glance is None:
        raise UnknownGroup(name)
    values = {"group": glance, "overview": now, "answers": visit.ask("why", subject=name)}
    values["serving"] = [each for each in now.members if name in each.groups]
    if glance.kind == "handler":
        page = visit.ask("list_cursors", group=name, limit=_CURSORS)
        behind = sorted(page.items, key=lambda each: (-each.lag, each.topic, each.partition))
        values |= {"cursors": behind[:_SHOWN_CURSORS], "count": len(behind), "more": page.after is not None}
        values["lanes"] = visit.ask("list_lanes", group=name, limit=_LANES)
    return PageView("group.html", values)


def lanes(visit: PageVisit) -> PageView:
    """List the waiting keys."""
    narrowed = {name: visit.text(name) for name in ("group", "topic", "key", "held")}
    page = visit.ask("list_lanes", after=visit.place(), limit=50, **narrowed)
    return PageView("lanes.html", {"listing": page})


def pipelines(visit: PageVisit) -> PageView:
    """List the readers that are not groups, such as pipelines into a lake, and the tables of the lake.

    A comparison reads every offset of the topic and the tables, so only a visitor who may act can start one,
    and a live refresh does not repeat it.
    """
    now, topic, lake = looked(visit), visit.text("reconcile"), visit.lake
    may = visit.can_act and not visit.is_live
    found = lake.reconcile(topic) if may and lake is not None and topic is not None else None
    values = {"overview": now, "pipelines": [each for each in now.groups if each.kind == "pipeline"]}
    values |= {"lake": lake, "tables": lake.tables() if lake is not None else (), "found": found}
    return PageView("pipelines.html", values)
