"""The partitions of a group on a topic as a grid, coloured by their owners."""

from dataclasses import dataclass
from typing import Any

from penstock.operate.groups import GroupPartition
from penstock.operate.overview import GroupGlance, StoreOverview

from ..visit import PageView, PageVisit
from .overview import looked

HUES = 12  # colours for owners
_MOST = 1000


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
    group = _picked(readable, visit.text("group"))
    topics = group.topics if group is not None else ()
    topic = visit.text("topic") if visit.text("topic") in topics else next(iter(topics), None)
    values: dict[str, Any] = {
        "groups": readable,
        "group": group,
        "topic": topic,
        "cells": [],
        "owners": [],
        "more": False,
    }
    if group is not None and topic is not None:
        page = visit.ask("list_cursors", group=group.name, topic=topic, limit=_MOST)
        owners = _owners(now, page.items)
        hues = {each.id: each.hue for each in owners}
        values |= {"cells": page.items, "owners": owners, "hues": hues, "more": page.after is not None}
        values["unowned"] = sum(each.owner is None for each in page.items)
        values["moving"] = sum(each.owner != each.wanted for each in page.items)
    return PageView("partitions.html", values)


def _picked(groups: list[GroupGlance], name: str | None) -> GroupGlance | None:
    return next((each for each in groups if each.name == name), next(iter(groups), None))


def _owners(now: StoreOverview, cells: list[GroupPartition]) -> list[Owner]:
    """Return the owners ordered by id, so that an owner keeps its colour while it lives."""
    ids = sorted({each.id for each in now.members} | {each.owner for each in cells if each.owner is not None})
    taken: set[int] = set()
    owners = []
    for id in ids:
        count = sum(each.owner == id for each in cells)
        coming = sum(each.wanted == id and each.owner != id for each in cells)
        if count or coming:
            hue = _hue(id, taken)
            taken.add(hue)
            owners.append(Owner(id, hue, count, coming))
    return owners


def _hue(id: str, taken: set[int]) -> int:
    """Return an owner's colour: derived from its id; the next free one if another owner has it."""
    first = sum(id.encode()) % HUES
    return next((each % HUES for each in range(first, first + HUES) if each % HUES not in taken), first)
