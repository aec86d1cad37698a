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


PAGES = (
    ConsolePage("", "Overview", overview.overview, "o", live_seconds=2),
    ConsolePage("partitions", "Partitions", groups.partitions, "p", live_seconds=2),
    ConsolePage("topics", "Topics", records.topics, "t", live_seconds=10),
    ConsolePage("groups", "Groups", groups.groups, "g", live_seconds=5),
    ConsolePage("key", "Key", records.key, "k"),
    ConsolePage("failures", "Failures", records.failures, "f", live_seconds=10),
    ConsolePage("lanes", "Waiting keys", groups.lanes, "w", live_seconds=10),
    ConsolePage("scheduled", "Scheduled", records.scheduled, "s", live_seconds=10),
    ConsolePage("periodic", "Periodic", records.periodic, "c", live_seconds=10),
    ConsolePage("members", "Members", groups.members, "m", live_seconds=5),
    ConsolePage("pipelines", "Pipelines", groups.pipelines, "l", live_seconds=5),
    ConsolePage("access", "Access", groups.access, "a"),
    ConsolePage("audit", "Audit", groups.audit, "u", live_seconds=10),
    ConsolePage("topic", "Records", records.topic, within="topics", live_seconds=2),
    ConsolePage("record", "Record", records.record, within="topics"),
    ConsolePage("group", "Group", groups.group, within="groups", live_seconds=5),
    ConsolePage("letter", "Dead letter", records.letter, within="failures"),
)
