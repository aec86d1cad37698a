"""Groups have a kind: handlers of a worker, or clients of a protocol that only store their positions."""

from collections.abc import Sequence
from enum import Enum

from penstock.clock import Clock, own_ms
from penstock.database.database import Database, Transaction
from penstock.errors import GroupKindDiffers


class GroupKind(Enum):
    """The kind of readers of a group."""

    HANDLER = "handler"  # functions of workers: lanes, retries, dead letters; retention waits for them
    CLIENT = "client"  # others, which commit an offset when they like; retention does not wait for them

    @property
    def holds(self) -> bool:
        """Whether retention waits for a group of this kind, by default."""
        return self is GroupKind.HANDLER


def make_groups(database: Database, names: Sequence[str], clock: Clock) -> None:
    """Make groups of handlers unless they are there, wherever their topics are. Raises GroupKindDiffers."""

    def make(tx: Transaction) -> None:
        for name in names:
            join_group(tx, name, GroupKind.HANDLER, own_ms(clock))

    database.run(make)


def join_group(tx: Transaction, name: str, kind: GroupKind, now_ms: int | None) -> int:
    """Make a group unless it is there; return its id. Raises GroupKindDiffers."""
    tx.change("delivery", "group_create", name=name, now_ms=now_ms, kind=kind.value, holds=kind.holds)
    ((id, found),) = tx.rows("delivery", "group_find", name=name)
    if found != kind.value:
        raise GroupKindDiffers(name, found, kind.value)
    return int(id)
