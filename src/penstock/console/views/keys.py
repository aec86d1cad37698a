"""One key: why it waits, in one sentence per group, and its last records as a timeline."""

from ..visit import PageView, PageVisit


def key(visit: PageVisit) -> PageView:
    """Show the history of a key."""
    name = visit.text("key")
    if name is None:
        return PageView("key.html", {"key": None})
    topic = visit.text("topic")
    course = visit.ask("show_key", key=name, topic=topic)
    answers = visit.ask("why", subject=name, topic=topic)
    return PageView("key.html", {"key": name, "course": course, "answers": answers})
