"""Making a group before anybody serves it: its place in a topic is known from then on."""

from penstock.clock import SYSTEM, Clock
from penstock.delivery.store import GroupStore
from penstock.errors import InvalidInput
from penstock.log.store import Store
from penstock.worker.handler_options import Start, is_name

from .operation import operation

NOBODY = "nobody"  # who serves a group that is only made


@operation
def create(store: Store, name: str, topic: str, *, start: Start = "earliest", clock: Clock = SYSTEM) -> None:
    """Make a group on a topic, at its first or behind its last record; one that is there stays as it is.

    Raises InvalidInput, UnknownTopic, GroupKindDiffers.
    """
    if not is_name(name):
        raise InvalidInput("a group's name has 1 to 255 printable characters")
    found = store.log.topic(topic)
    GroupStore(store, clock, group=name, topic=found, owner=NOBODY, from_start=start == "earliest")
