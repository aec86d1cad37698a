"""One reason: what an answer is made of."""

from dataclasses import dataclass, replace

from .answer import Code


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its sentence without its end, and what goes with it."""

    code: Code
    sentence: str
    since_ms: int | None = None
    until_ms: int | None = None
    commands: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def with_others(reason: Reason, others: list[Reason]) -> Reason:
    """Return a reason with others that would count once it is gone."""
    commands = reason.commands + tuple(each for other in others for each in other.commands)
    also = reason.also + tuple(other.sentence for other in others)
    return replace(reason, commands=tuple(dict.fromkeys(commands)), also=also)
