"""A group on a topic, and the choice of its handler for a record."""

from dataclasses import dataclass, field
from datetime import timedelta

from penstock.delivery.notes import CatchUp
from penstock.model.record import Record

from .handler import Handler
from .handler_options import Start

_CACHED_TYPES = 10_000  # types come from outside: the number of cached ones is bounded


@dataclass(frozen=True, slots=True)
class Subscription:
    """A group on a topic with its handlers, in the order they are tried."""

    group: str
    topic: str
    start: Start
    handlers: tuple[Handler, ...]
    _by_type: dict[str, tuple[Handler, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _passed_over: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def is_transactional(self) -> bool:
        """Whether its handlers commit with their cursors; then all of them do."""
        return self.handlers[0].transaction

    @property
    def works_in_sequence(self) -> bool:
        """Whether all records of a partition are one lane; then they are so for all of its handlers."""
        return self.handlers[0].lanes == "partition"

    @property
    def has_rate(self) -> bool:
        """Whether one of its handlers has a rate."""
        return any(handler.rate is not None for handler in self.handlers)

    def handler_for(self, record: Record) -> Handler | None:
        """Return the first handler that wants a record: exact and narrower matches come before wider ones.

        None: the record is done for this group. A predicate that raises counts as a failure of its handler
        on this record.
        """
        type = record.type or ""
        asked = self._by_type.get(type)
        if asked is None:
            asked = self.asked(type)
        for handler in asked:
            if not callable(handler.match):
                return handler
            try:
                if handler.match(record):
                    return handler
            except Exception as error:
                return handler.failing(error)
        return None

    def wants(self, type: str) -> bool:
        """Return whether a handler may want records of a type."""
        asked = self._by_type.get(type)
        return bool(self.asked(type) if asked is None else asked)

    def catch_up(self, within: timedelta) -> CatchUp:
        """Return the rule for late delivery: a group that starts at the latest record gets none unasked."""
        within_ms = within // timedelta(milliseconds=1) if self.start == "earliest" else 0
        return CatchUp(self.wants, within_ms)

    def pass_over(self, type: str) -> bool:
        """Record that a type is passed over; return whether that is new in this process."""
        if type in self._passed_over or len(self._passed_over) >= _CACHED_TYPES:
            return False
        self._passed_over.add(type)
        return True

    def asked(self, type: str) -> tuple[Handler, ...]:
        """Return the handlers that may want records of a type, the nearest first."""
        asked = tuple(
            sorted(
                (handler for handler in self.handlers if handler.wants_type(type)),
                key=lambda handler: handler.nearness(type),
            )
        )
        if len(self._by_type) >= _CACHED_TYPES:
            self._by_type.clear()
        self._by_type[type] = asked
        return asked
