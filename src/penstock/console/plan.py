"""The plan of an act, as a value: it is previewed, then carried out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LOOK = "look"  # a form with this field asks for the preview
ActStep = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class ActPlan:
    """The plan of an act: a question, details, the steps, and the page to return to.

    `done` turns the results of the steps into a sentence for the visitor.
    """

    question: str
    steps: tuple[ActStep, ...]
    done: Callable[[list[Any]], str]
    back: str
    details: tuple[str, ...] = ()
    is_harsh: bool = False
    fields: tuple[tuple[str, str], ...] = ()  # fields that the form has beside those of the request
