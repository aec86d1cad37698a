"""The whole conversation, chapter after chapter; each has topics, groups and ids of its own."""

from typing import Any

from . import configs, groups, producers, records, topics
from .talk import Talk

CHAPTERS = (
    *topics.CHAPTERS,
    *records.CHAPTERS,
    *configs.CHAPTERS,
    *groups.CHAPTERS,
    *producers.CHAPTERS,
)


def held_with(address: str) -> dict[str, Any]:
    """Hold the conversation with a broker; return every answer by its step."""
    answers: dict[str, Any] = {}
    for chapter in CHAPTERS:
        with Talk(address) as talk:
            chapter(talk)
            answers |= talk.answers
    return answers
