"""One request as its handler gets it; and the changes that handlers make to a store beyond records."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from penstock.access.access import Access
from penstock.access.principal import Principal
from penstock.access.resource import AccessRight, Resource, ResourceKind
from penstock.access.rule import AccessRule
from penstock.errors import NotAllowed
from penstock.log.contract import Compaction, Keep, Topic
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.layout import Message

from .slices import Slices

T = TypeVar("T")


class Refused(Exception):
    """A request, or a part of it, is answered with one of Kafka's numbers."""

    def __init__(self, number: ErrorNumber, why: str = "") -> None:
        super().__init__(why or number.name)
        self.number = number


class ClientCall(NamedTuple):
    """A request with its version, and the client that sent it."""

    principal: Principal
    client_id: str
    version: int
    body: Message
    access: Access
    slices: Slices

    def may(self, action: AccessRight, resource: Resource) -> bool:
        """Return whether the caller has a right to a resource."""
        return self.access.allowed(self.principal, action, resource)

    def may_some(self, action: AccessRight, kind: ResourceKind) -> bool:
        """Return whether the caller has a right to at least one resource of a kind."""
        return self.access.allowed_some(self.principal, action, kind)

    def sees(self, resource: Resource) -> bool:
        """Return whether the caller may see a resource in a list; leaving it out is no refusal."""
        return self.access.sees(self.principal, resource)

    def check(self, action: AccessRight, resource: Resource) -> None:
        """Raise NotAllowed unless the caller has a right to a resource."""
        if not self.may(action, resource):
            raise NotAllowed(self.principal.name, action, str(resource))

    def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield the elements of a list, however long it is, without blocking the loop: see `Slices.each`."""
        return self.slices.each(items)


Reply = Message | bytes  # as fields, or encoded already
RequestHandler = Callable[[ClientCall], Reply | Awaitable[Reply]]


class Administration(Protocol):
    """Creates, deletes, grows and sets topics; deletes groups. Each call is one operation, with its audit."""

    def create_topic(
        self,
        name: str,
        partitions: int,
        partitioner: str,
        keep: Keep,
        configs: Mapping[str, str],
        compaction: Compaction | None = None,
    ) -> None:
        """Create a topic. Raises InvalidTopic, InvalidPartitions, PartitionsDiffer if it exists."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises UnknownTopic, TopicBusy."""

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions. Raises UnknownTopic, InvalidGrowth."""

    def set_topic(
        self, topic: Topic, keep: Keep, configs: Mapping[str, str | None], compaction: Compaction | None
    ) -> None:
        """Set a topic's retention, compaction, and other configs; None removes one.

        Raises UnknownTopic, StoreUnsupported.
        """

    def trim_topic(self, topic: Topic, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset. Raises OffsetOutOfRange."""

    def add_rules(self, rules: Sequence[AccessRule], by: str) -> tuple[AccessRule, ...]:
        """Add access rules to the database; return all rules it has then."""

    def remove_rules(self, rules: Sequence[AccessRule], by: str, *, last: bool) -> tuple[AccessRule, ...]:
        """Remove access rules from the database; return all rules it has then.

        Raises LeftOpen if none would be left, unless `last`.
        """

    def delete_group(self, name: str) -> None:
        """Delete a group and its offsets. Raises UnknownGroup."""
