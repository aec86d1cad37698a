"""The table of a face: its answer (an exit code, an HTTP status, a number of Kafka's) to each error."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from .base import Error

Answer = TypeVar("Answer")


class ErrorTable(Generic[Answer]):
    """Answers by a rule, except for the named classes and those below them."""

    def __init__(self, rule: Callable[[type[Error]], Answer], named: Mapping[Answer, Iterable[type[Error]]]) -> None:
        """`rule`: from `fault` and `retryable` to the answer."""
        self.rule = rule
        self.named = {cls: answer for answer, classes in named.items() for cls in classes}

    def of(self, cls: type[Error]) -> Answer:
        """Return the answer of the nearest named class, or else that of the rule."""
        nearest = next((base for base in cls.__mro__ if base in self.named), None)
        return self.rule(cls) if nearest is None else self.named[nearest]
