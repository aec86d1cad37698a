"""What a `with outbox.tracking(…)` block says about the writes inside it.

It holds for the flushes that happen in the block: in the same thread or task, and in what is awaited there.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import InvalidHeaders, InvalidTracking

ACTION, ENTITY, CHANGED = "action", "entity", "changed"  # the headers that tracking itself sets

Skip = bool | type | Iterable[type]


@dataclass(frozen=True, slots=True)
class Block:
    """What holds now: classes whose writes give no event, headers to add, and whether events are forced."""

    skip: tuple[type, ...] = ()
    force: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def skips(self, target: object) -> bool:
        """Return whether a write of this object gives no event."""
        return isinstance(target, self.skip)


_NONE = Block()
# One block per outbox: a mapping that is never changed, so that a task sees what held when it was made.
_BLOCKS: ContextVar[Mapping[int, Block]] = ContextVar("penstock_tracking", default={})  # noqa: B039


def current(outbox: object) -> Block:
    """Return the block that holds now for an outbox."""
    return _BLOCKS.get().get(id(outbox), _NONE)


@contextmanager
def tracking(outbox: object, skip: Skip, force: bool, metadata: Mapping[str, Any] | None) -> Iterator[None]:
    """Let a block hold: metadata and skips are added to those around it, `force` takes their skips away.

    Raises InvalidTracking, InvalidHeaders.
    """
    around = current(outbox)
    skipped = _classes(skip)
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
            raise InvalidTracking(f"tracking(skip={each!r})", "give True, a model or several models")
    return classes


def _checked(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in (ACTION, ENTITY, CHANGED):
        if name in metadata:
            raise InvalidHeaders(name, "tracking sets it itself; give your metadata another name")
    return metadata
