"""Cursors of clients: an offset for each partition, and what the client said with it.

A client group has no owners, lanes or done sets: its clients commit where they are, and ask for it again. The
last commit counts; who may commit is for the coordinator above to decide.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.clock import Clock, own_ms
from penstock.errors import OffsetOutOfRange
from penstock.log.contract import Topic, check_partition
from penstock.log.sql.contract import Rows
from penstock.log.sql.database import Transaction
from penstock.log.store import Store

from .group_kind import GroupKind, join_group


class ClientCommit(NamedTuple):
    """Where a client is in a partition: the next offset it wants. `metadata` is its own, kept as it is."""

    offset: int
    metadata: str | None = None


class ClientCursors:
    """The cursors of one client group on one topic. Safe from any thread."""

    def __init__(self, store: Store, clock: Clock, *, group: str, topic: Topic) -> None:
        self._store, self._topic = store, topic
        database, now_ms = store.database, own_ms(clock)
        self._group_id = database.run(lambda tx: join_group(tx, group, GroupKind.CLIENT, now_ms))
        self._ids = {"group_id": self._group_id, "topic_id": topic.id}

    def commit(self, commits: Mapping[int, ClientCommit]) -> None:
        """Store where the group is, all or none. Raises UnknownPartition, OffsetOutOfRange."""
        for partition, commit in commits.items():
            check_partition(self._topic, partition)
            if commit.offset < 0:
                raise OffsetOutOfRange(self._topic.name, partition, commit.offset, 0, 1 << 63)
        if commits:
            table = Rows(
                partition=list(commits),
                place=[each.offset for each in commits.values()],
                metadata=[each.metadata for each in commits.values()],
            )
            self._store.database.run(
                lambda tx: tx.change("delivery", "cursors_commit", commits=table, **self._ids)
            )

    def committed(self) -> dict[int, ClientCommit]:
        """Return what was committed, by partition."""

        def look(tx: Transaction) -> dict[int, ClientCommit]:
            rows = tx.rows("delivery", "cursors_committed", **self._ids)
            return {partition: ClientCommit(offset, metadata) for partition, offset, metadata in rows}

        return self._store.database.look(look)
