"""The commits of a group of clients on one topic, as the coordinator of the Kafka port writes them."""

from collections.abc import Mapping

from penstock.clock import Clock, own_ms
from penstock.delivery.client_cursors import ClientCommit, ClientPlace, commit_places, committed_places
from penstock.delivery.groups import GroupKind, join_group
from penstock.log.contract import Topic
from penstock.log.store import Store


class ClientCursors:
    """The cursors of one client group on one topic."""

    def __init__(self, store: Store, clock: Clock, *, group: str, topic: Topic) -> None:
        self._database, self._topic = store.database, topic
        self._group_id = store.database.run(lambda tx: join_group(tx, group, GroupKind.CLIENT, own_ms(clock)))

    def commit(self, commits: Mapping[int, ClientCommit]) -> None:
        """Store positions, by partition."""
        places = {ClientPlace(self._topic.id, partition): each for partition, each in commits.items()}
        self._database.run(lambda tx: commit_places(tx, self._group_id, places))

    def committed(self) -> dict[int, ClientCommit]:
        """Return the positions, by partition."""
        found = self._database.look(lambda tx: committed_places(tx, self._group_id))
        return {place.partition: each for place, each in found.items()}
