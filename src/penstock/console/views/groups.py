"""Groups, their partitions by owners, waiting keys and pipelines; members, access rules and the audit."""

from dataclasses import dataclass
from typing import Any

from penstock.access.resource import AccessRight, ResourceKind
from penstock.errors import InvalidInput, UnknownGroup
from penstock.operate.groups import GroupPartition
from penstock.operate.overview import StoreOverview

from ..visit import PageView, PageVisit
from .overview import looked

HUES = 12  # colours for owners
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
    for fresh in (False, True):
        now = looked(visit, fresh=fresh)
        glance = next((each for each in now.groups if each.name == name), None)
        if glance is not None:
            break
    else:
        raise UnknownGroup(name)
    values = {"group": glance, "overview": now, "answers": visit.ask("why", subject=name)}
    values["serving"] = [each for each in now.members if name in each.groups]
    if glance.kind == "handler":
        page = visit.ask("list_cursors", group=name, limit=_CURSORS)
        behind = sorted(page.items, key=lambda each: (-each.lag, each.topic, each.partition))
        values |= {"cursors": behind[:_SHOWN_CURSORS], "count": len(behind), "more": page.after is not None}
        values["lanes"] = visit.ask("list_lanes", group=name, limit=_LANES)
    return PageView("group.html", values)


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


@dataclass(frozen=True, slots=True)
class Owner:
    """A member that owns partitions here: its colour, how many it owns, and how many it will take over."""

    id: str
    hue: int
    count: int
    coming: int


def partitions(visit: PageVisit) -> PageView:
    """Show who owns which partition, and which are being handed over."""
    now = looked(visit)
    readable = [each for each in now.groups if each.kind == "handler" and each.topics]
    named = [each for each in readable if each.name == visit.text("group")]
    group = next(iter(named or readable), None)
    topics = group.topics if group is not None else ()
    topic = visit.text("topic") if visit.text("topic") in topics else next(iter(topics), None)
    values: dict[str, Any] = {"groups": readable, "group": group, "topic": topic}
    values |= {"cells": [], "owners": [], "more": False}
    if group is not None and topic is not None:
        page = visit.ask("list_cursors", group=group.name, topic=topic, limit=_CURSORS)
        owners = _owners(now, page.items)
        hues = {each.id: each.hue for each in owners}
        values |= {"cells": page.items, "owners": owners, "hues": hues, "more": page.after is not None}
        values["unowned"] = sum(each.owner is None for each in page.items)
        values["moving"] = sum(each.owner != each.wanted for each in page.items)
    return PageView("partitions.html", values)


def _owners(now: StoreOverview, cells: list[GroupPartition]) -> list[Owner]:
    ids = sorted({each.id for each in now.members} | {each.owner for each in cells if each.owner is not None})
    owners = list[Owner]()
    for id in ids:
        count = sum(each.owner == id for each in cells)
        coming = sum(each.wanted == id and each.owner != id for each in cells)
        if count or coming:
            owners.append(Owner(id, _hue(id, {each.hue for each in owners}), count, coming))
    return owners


def _hue(id: str, taken: set[int]) -> int:
    """Return an owner's colour: derived from its id; the next free one if another owner has it."""
    first = sum(id.encode()) % HUES
    return next((each % HUES for each in range(first, first + HUES) if each % HUES not in taken), first)


def members(visit: PageVisit) -> PageView:
    """List the members."""
    return PageView("members.html", {"overview": looked(visit)})


def access(visit: PageVisit) -> PageView:
    """Show the access rules, and explain one verdict."""
    asked = {name: visit.text(name) for name in ("principal", "right", "kind", "name")}
    verdict = None
    if asked["principal"] and asked["right"] and asked["kind"]:
        verdict = visit.ask("explain_access", **asked)
    values = {"access": visit.ask("list_rules"), "asked": asked, "verdict": verdict}
    values |= {"rights": list(AccessRight), "kinds": list(ResourceKind)}
    return PageView("access.html", values)
