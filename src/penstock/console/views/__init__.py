"""The pages: each calls operations and returns a template with their answers.

Their table has path, title and view; the keys `g` and its letter open a page of the menu.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..visit import PageView, PageVisit
from . import groups, overview, records


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One page. `letter`: its key in the menu; else its parent is `within`. `live_seconds`: how often it refreshes."""

    path: str
    title: str
    view: Callable[[PageVisit], PageView]
    letter: str = ""
    within: str = ""
    live_seconds: int = 0


def _listing(says: str, template: str, operation: str, *filters: str) -> Callable[[PageVisit], PageView]:
    def view(visit: PageVisit) -> PageView:
        narrowed = {name: visit.text(name) for name in filters}
        listing = visit.ask(operation, after=visit.place(), limit=records.PER_PAGE, **narrowed)
        return PageView(template, {"listing": listing})

    view.__doc__ = says  # the reference page of the console shows it
    return view


_TOPICS = _listing("List the topics.", "topics.html", "list_topics")
_LANES = _listing("List the waiting keys.", "lanes.html", "list_lanes", "group", "topic", "key", "held")
_SCHEDULED = _listing(
    "List the scheduled events, the next one first.", "scheduled.html", "list_scheduled", "topic", "key"
)
_PERIODIC = _listing("List the schedules.", "periodic.html", "list_schedules")
_AUDIT = _listing("List the audit entries, newest first.", "audit.html", "list_audit", "action", "actor")
PAGES = (
    ConsolePage("", "Overview", overview.overview, "o", live_seconds=2),
    ConsolePage("partitions", "Partitions", groups.partitions, "p", live_seconds=2),
    ConsolePage("topics", "Topics", _TOPICS, "t", live_seconds=10),
    ConsolePage("groups", "Groups", groups.groups, "g", live_seconds=5),
    ConsolePage("key", "Key", records.key, "k"),
    ConsolePage("failures", "Failures", records.failures, "f", live_seconds=10),
    ConsolePage("lanes", "Waiting keys", _LANES, "w", live_seconds=10),
    ConsolePage("scheduled", "Scheduled", _SCHEDULED, "s", live_seconds=10),
    ConsolePage("periodic", "Periodic", _PERIODIC, "c", live_seconds=10),
    ConsolePage("members", "Members", groups.members, "m", live_seconds=5),
    ConsolePage("pipelines", "Pipelines", groups.pipelines, "l", live_seconds=5),
    ConsolePage("access", "Access", groups.access, "a"),
    ConsolePage("audit", "Audit", _AUDIT, "u", live_seconds=10),
    ConsolePage("topic", "Records", records.topic, within="topics", live_seconds=2),
    ConsolePage("record", "Record", records.record, within="topics"),
    ConsolePage("group", "Group", groups.group, within="groups", live_seconds=5),
    ConsolePage("letter", "Dead letter", records.letter, within="failures"),
)
