"""One record on its way to its handler: the value that a group's delivery passes to the runner."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from penstock.delivery.lane import LaneId
from penstock.model.record import Record

from .handler import Handler


class TaskPlace(NamedTuple):
    """The place of a record in the topic."""

    partition: int
    offset: int


class HandlerTask(msgspec.Struct, frozen=True, eq=False):
    """One record to hand to its handler; `failures` counts its failures before. Compared by identity.

    `next` is the following record of the same key, if it is for the same handler: the same thread calls it
    when this one has passed. `more` counts those that follow.
    """

    place: TaskPlace
    lane: LaneId
    handler: Handler
    record: Record
    failures: int
    next: "HandlerTask | None" = None
    more: int = 0
    topic_id: int = 0  # a topic recreated under the same name has another

    def run(self) -> "Iterator[HandlerTask]":
        """Yield this task and those that follow it."""
        task: HandlerTask | None = self
        while task is not None:
            yield task
            task = task.next
