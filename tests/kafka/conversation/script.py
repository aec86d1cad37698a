"""The whole conversation, chapter after chapter; each has topics, groups and ids of its own."""

from collections.abc import Collection
from typing import Any

from . import configs, groups, producers, records, topics
from .talk import Talk

CHAPTERS = (*topics.CHAPTERS, *records.CHAPTERS, *configs.CHAPTERS, *groups.CHAPTERS, *producers.CHAPTERS)


def held_with(address: str, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Hold the conversation with a broker, perhaps without some chapters; return every answer by its step."""
    answers: dict[str, Any] = {}
    for chapter in (each for each in CHAPTERS if each.__name__ not in without):
        with Talk(address) as talk:
            chapter(talk)
            answers |= talk.answers
    return answers
