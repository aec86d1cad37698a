"""One key: why it waits, in a sentence for each group, and its last records as a time line."""

from ..visit import PageView, PageVisit


def key(visit: PageVisit) -> PageView:
    """Show the life of a key."""
    name = visit.text("key")
    if name is None:
        return PageView("key.html", {"key": None})
    topic = visit.text("topic")
    course = visit.ask("show_key", key=name, topic=topic)
    answers = visit.ask("why", subject=name, topic=topic)
    return PageView("key.html", {"key": name, "course": course, "answers": answers})
