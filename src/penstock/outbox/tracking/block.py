"""The options that a `with outbox.tracking(…)` block sets for the writes inside it.

They apply to flushes in the block: in the same thread or task, and in coroutines awaited there.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import InvalidHeaders, InvalidTracking

ACTION, ENTITY, CHANGED = "action", "entity", "changed"  # the headers that tracking sets

Skip = bool | type | Iterable[type]


@dataclass(frozen=True, slots=True)
class Block:
    """The options in force: classes whose writes have no event, extra headers, and `force`."""

    skip: tuple[type, ...] = ()
    force: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def skips(self, target: object) -> bool:
        """Return whether a write of this object has no event."""
        return isinstance(target, self.skip)


_NONE = Block()
# One block per outbox, in an immutable mapping, so that a task keeps the options from its creation.
_BLOCKS: ContextVar[Mapping[int, Block]] = ContextVar("penstock_tracking", default={})  # noqa: B039


def current(outbox: object) -> Block:
    """Return the current block of an outbox."""
    return _BLOCKS.get().get(id(outbox), _NONE)


@contextmanager
def tracking(outbox: object, skip: Skip, force: bool, metadata: Mapping[str, Any] | None) -> Iterator[None]:
    """Apply a block inside the outer one; `force` removes outer skips. Raises InvalidTracking, InvalidHeaders."""
    around, skipped = current(outbox), _classes(skip)
    if force and skipped:
        raise InvalidTracking("tracking(skip=…, force=True)", "an event is skipped or forced, not both")
    inner = Block(
        () if force else around.skip + skipped,
        force or (around.force and not skipped),
        {**around.metadata, **_checked(metadata or {})},
    )
    token = _BLOCKS.set({**_BLOCKS.get(), id(outbox): inner})
    try:
        yield
    finally:
        _BLOCKS.reset(token)


def _classes(skip: Skip) -> tuple[type, ...]:
    if isinstance(skip, bool):
        return (object,) if skip else ()
    classes = (skip,) if isinstance(skip, type) else tuple(skip)
    for each in classes:
        if not isinstance(each, type):
            raise InvalidTracking(f"tracking(skip={each!r})", "pass True, a model or several models")
    return classes


def _checked(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in (ACTION, ENTITY, CHANGED):
        if name in metadata:
            raise InvalidHeaders(name, "tracking sets this header; give your metadata another name")
    return metadata
