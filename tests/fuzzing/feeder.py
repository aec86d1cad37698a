"""What is the same at every door: seeds, counts, bytes that are changed."""

from __future__ import annotations

import contextlib
import random
from abc import ABC, abstractmethod
from typing import NamedTuple

TOPIC = "name"
Place = tuple[str, int]


class Fed(NamedTuple):
    """How many requests were sent, and how many of them were answered; others ended their connection."""

    cases: int = 0
    answered: int = 0

    def __add__(self, other: object) -> Fed:
        assert isinstance(other, Fed)
        return Fed(self.cases + other.cases, self.answered + other.answered)


class WrongAnswer(Exception):
    """A door answered with what is neither a success nor an error that clients are told of."""


class Feeder(ABC):
    """Sends requests over a connection, and takes what comes."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place, self.draw = place, random.Random(seed)

    @abstractmethod
    def some(self) -> Fed:
        """Send some requests. Raises WrongAnswer, TimeoutError where an answer is due."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""

    def feed(self, count: int) -> Fed:
        """Send so many, or a few more."""
        fed = Fed()
        with contextlib.closing(self):
            while fed.cases < count:
                fed += self.some()
        return fed


def changed(draw: random.Random, data: bytes, *, names_nothing: bool = False) -> bytes:
    """Return bytes of which up to three are others.

    `names_nothing`: they are none of a name, for requests that make something: what is made would grow.
    """
    made = bytearray(data)
    for _ in range(draw.randrange(4) if made else 0):
        byte = draw.randrange(256)
        made[draw.randrange(len(made))] = byte | 0x80 if names_nothing else byte
    return bytes(made)
