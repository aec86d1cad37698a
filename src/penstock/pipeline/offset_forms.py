"""Offsets as Spark stores them: the range of a topic, or `{"topics": [range, …]}` of several.

Values only, no I/O.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .offsets import Range

Form = dict[str, Any]
_TOPICS = "topics"
_KEYS = {"log", "topic", "topic_id", "starts", "ends"}


def by_topic(form: Mapping[str, Any]) -> dict[str, Form]:
    """Return the ranges in an offset, by topic; also for the form of a single topic."""
    forms = form[_TOPICS] if _TOPICS in form else [dict(form)]
    return {each["topic"]: each for each in forms}


def of_topics(forms: list[Form]) -> Form:
    """Return the offset with the ranges of several topics."""
    return {_TOPICS: forms}


def is_ours(form: Any) -> bool:
    """Return whether an offset in a checkpoint comes from our source."""
    if not isinstance(form, dict):
        return False
    if isinstance(form.get(_TOPICS), list):
        return all(is_ours(each) and _TOPICS not in each for each in form[_TOPICS])
    return form.keys() >= _KEYS


def standing(form: Form) -> Form:
    """Return the empty range of a batch without records of a topic."""
    place = Range.from_json(form)
    return replace(place, starts=place.ends).to_json()
