"""The reason of an answer."""

from dataclasses import dataclass, replace

from .answer import Code


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: its sentence without the full stop, its times, commands and further reasons."""

    code: Code
    sentence: str
    since_ms: int | None = None
    until_ms: int | None = None
    commands: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def with_others(reason: Reason, others: list[Reason]) -> Reason:
    """Return a reason with others that would apply once it is resolved."""
    commands = reason.commands + tuple(each for other in others for each in other.commands)
    also = reason.also + tuple(other.sentence for other in others)
    return replace(reason, commands=tuple(dict.fromkeys(commands)), also=also)
