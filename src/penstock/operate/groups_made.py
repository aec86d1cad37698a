"""Creates a group before a member serves it, which fixes its start in a topic."""

from penstock.clock import SYSTEM, Clock
from penstock.delivery.store import GroupStore
from penstock.errors import InvalidInput
from penstock.log.store import Store
from penstock.worker.handler_options import Start, is_name

from .operation import operation

NOBODY = "nobody"  # the owner of a group that no member serves yet


@operation
def create(store: Store, name: str, topic: str, *, start: Start = "earliest", clock: Clock = SYSTEM) -> None:
    """Create a group on a topic, at its first record or after its last; an existing group is not changed.

    Raises InvalidInput, UnknownTopic, GroupKindDiffers.
    """
    if not is_name(name):
        raise InvalidInput("a group's name has 1 to 255 printable characters")
    found = store.log.topic(topic)
    GroupStore(store, clock, group=name, topic=found, owner=NOBODY, from_start=start == "earliest")
