"""The table of pages: path, title, view. The keys `g` and its letter open a page of the menu."""

from collections.abc import Callable
from dataclasses import dataclass

from .views import failures, groups, keys, overview, partitions, people, timing, topics
from .visit import PageView, PageVisit


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One page. `letter`: its key in the menu; empty for a page reached from its parent, `within`.

    `live_seconds`: how often an open page refreshes.
    """

    path: str
    title: str
    view: Callable[[PageVisit], PageView]
    letter: str = ""
    within: str = ""
    live_seconds: int = 0


PAGES = (
    ConsolePage("", "Overview", overview.overview, "o", live_seconds=2),
    ConsolePage("partitions", "Partitions", partitions.partitions, "p", live_seconds=2),
    ConsolePage("topics", "Topics", topics.topics, "t", live_seconds=10),
    ConsolePage("groups", "Groups", groups.groups, "g", live_seconds=5),
    ConsolePage("key", "Key", keys.key, "k"),
    ConsolePage("failures", "Failures", failures.failures, "f", live_seconds=10),
    ConsolePage("lanes", "Waiting keys", groups.lanes, "w", live_seconds=10),
    ConsolePage("scheduled", "Scheduled", timing.scheduled, "s", live_seconds=10),
    ConsolePage("periodic", "Periodic", timing.periodic, "c", live_seconds=10),
    ConsolePage("members", "Members", people.members, "m", live_seconds=5),
    ConsolePage("pipelines", "Pipelines", groups.pipelines, "l", live_seconds=5),
    ConsolePage("access", "Access", people.access, "a"),
    ConsolePage("audit", "Audit", people.audit, "u", live_seconds=10),
    ConsolePage("topic", "Records", topics.topic, within="topics", live_seconds=2),
    ConsolePage("record", "Record", topics.record, within="topics"),
    ConsolePage("group", "Group", groups.group, within="groups", live_seconds=5),
    ConsolePage("letter", "Dead letter", failures.letter, within="failures"),
)
