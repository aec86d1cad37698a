"""What an act would do, as a value: it is shown, and then carried out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LOOK = "look"  # a form with this field asks what an act would do
ActStep = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class ActPlan:
    """What an act would do: a question, more words, the steps, and the page to go back to.

    `done` says it in the past, of what the steps gave.
    """

    question: str
    steps: tuple[ActStep, ...]
    done: Callable[[list[Any]], str]
    back: str
    details: tuple[str, ...] = ()
    is_harsh: bool = False
    fields: tuple[tuple[str, str], ...] = ()  # more that the form says, beside what it was asked with
