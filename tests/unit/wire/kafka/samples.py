"""A message of every layout with a value in every field: what one encoder writes another must read."""

import random
from typing import Any, TypeVar
from uuid import UUID

from penstock.wire.kafka.layout import ArrayOf, Field, FieldKind, Message, Octets, Scalar, StructOf, Text
from penstock.wire.kafka.stepwise import CodecSteps

T = TypeVar("T")
_SIZES = {"b": 7, "h": 15, "i": 31, "q": 63}


def a_message(fields: tuple[Field, ...], version: int, seed: int) -> Message:
    """Return a message with a value for every field of a version, the same for the same seed."""
    draw = random.Random(seed)
    return {each.name: _value(each, version, draw) for each in fields if each.is_in(version)}


def _value(field: Field, version: int, draw: random.Random) -> Any:
    nullable = field.null_since is not None and version >= field.null_since
    if nullable and field.tag is None and draw.random() < 0.3:
        return None
    return _of_kind(field.kind, version, draw)


def _of_kind(kind: FieldKind, version: int, draw: random.Random) -> Any:
    if isinstance(kind, Scalar):
        if kind.letter == "?":
            return draw.random() < 0.5
        size = _SIZES[kind.letter]
        return draw.randrange(-(1 << size), 1 << size)
    if isinstance(kind, Text):
        return draw.choice(["", "name", "ü" * 70, "x" * 300])
    if isinstance(kind, Octets):
        return draw.randbytes(draw.choice([0, 1, 200]))
    if isinstance(kind, StructOf):
        return {each.name: _value(each, version, draw) for each in kind.fields if each.is_in(version)}
    if isinstance(kind, ArrayOf):
        return [_of_kind(kind.element, version, draw) for _ in range(draw.randrange(4))]
    return UUID(bytes=draw.randbytes(16))


def drained(steps: CodecSteps[T]) -> T:
    """Run all steps and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: T = done.value
            return found
