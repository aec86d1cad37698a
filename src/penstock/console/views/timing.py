"""Scheduled events and periodic schedules."""

from ..visit import PageView, PageVisit

PER_PAGE = 50


def scheduled(visit: PageVisit) -> PageView:
    """List the scheduled events, the next one first."""
    narrowed = {name: visit.text(name) for name in ("topic", "key")}
    page = visit.ask("list_scheduled", after=visit.place(), limit=PER_PAGE, **narrowed)
    return PageView("scheduled.html", {"listing": page})


def periodic(visit: PageVisit) -> PageView:
    """List the schedules."""
    return PageView(
        "periodic.html", {"listing": visit.ask("list_schedules", after=visit.place(), limit=PER_PAGE)}
    )
