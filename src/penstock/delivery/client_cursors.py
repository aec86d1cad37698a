"""Cursors of clients: an offset for each partition, and the metadata that the client attached.

A client group has no owners, lanes or done sets: its clients commit their positions, and read them back. The
last commit counts; the coordinator above decides who may commit.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.database.contract import Rows
from penstock.database.database import Transaction


class ClientCommit(NamedTuple):
    """The next offset a client wants, and its own data; `leader_epoch`: of the record before; -1: not given."""

    offset: int
    metadata: str | None = None
    leader_epoch: int = -1


class ClientPlace(NamedTuple):
    """A partition of a topic that a client group has committed on."""

    topic_id: int
    partition: int


def commit_places(tx: Transaction, group_id: int, commits: Mapping[ClientPlace, ClientCommit]) -> None:
    """Store a client group's positions in partitions of several topics, in a transaction of the caller."""
    by_topic: dict[int, dict[int, ClientCommit]] = {}
    for (topic_id, partition), commit in sorted(commits.items()):
        by_topic.setdefault(topic_id, {})[partition] = commit
    for topic_id, some in by_topic.items():
        rows = [(partition, *commit) for partition, commit in some.items()]
        table = Rows.of("partition place metadata leader_epoch", rows)
        tx.change("delivery", "cursors_commit", commits=table, group_id=group_id, topic_id=topic_id)


def committed_places(tx: Transaction, group_id: int) -> dict[ClientPlace, ClientCommit]:
    """Return everything a client group has committed."""
    rows = tx.rows("delivery", "cursors_of_client", group_id=group_id)
    return {ClientPlace(*row[:2]): ClientCommit(*row[2:]) for row in rows}


def forget_places(tx: Transaction, group_id: int, places: Iterable[ClientPlace]) -> None:
    """Forget a client group's positions in some partitions."""
    table = Rows.of("topic_id partition", sorted(places))
    tx.change("delivery", "cursors_forget", group_id=group_id, places=table)


def hold_places(tx: Transaction, producer_id: int, group_id: int, commits: Mapping[ClientPlace, ClientCommit]) -> None:
    """Hold back the commits of an open transaction; the last one for a partition counts."""
    rows = [(*place, *commit) for place, commit in sorted(commits.items())]
    if rows:
        table = Rows.of("topic_id partition place metadata leader_epoch", rows)
        params = {"producer_id": producer_id, "group_id": group_id, "commits": table}
        tx.change("delivery", "pending_offsets_forget", **params)
        tx.change("delivery", "pending_offsets_add", **params)


def settle_places(tx: Transaction, producer_id: int, *, committed: bool) -> None:
    """Commit the positions a transaction held back, or drop them."""
    if committed:
        held: dict[int, dict[ClientPlace, ClientCommit]] = {}
        for row in tx.rows("delivery", "pending_offsets", producer_id=producer_id):
            held.setdefault(row[0], {})[ClientPlace(*row[1:3])] = ClientCommit(*row[3:])
        for group_id, commits in held.items():
            commit_places(tx, group_id, commits)
    tx.change("delivery", "pending_offsets_delete", producer_id=producer_id)


def pending_places(tx: Transaction, group_id: int) -> set[ClientPlace]:
    """Return the partitions that open transactions will commit for a group."""
    rows = tx.rows("delivery", "pending_offsets_of", group_id=group_id)
    return {ClientPlace(*row) for row in rows}
