"""The sequencer in this process, on a store of ours."""

from contextlib import closing
from typing import Any

from bench.package import sequencer_of
from bench.stores.contract import Store
from bench.stores.recording import Tape
from penstock.log.sql.heads import Fence
from penstock.model.partition import SLOTS

OWNER = "bench"  # holds all slots of a filled store, in epoch 1


class Mover:
    """Moves what is staged, pass after pass, without pauses."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._database = store.database()
        self._sequencer = sequencer_of(self._database)
        self._fence = Fence(OWNER, dict.fromkeys(range(SLOTS), 1))

    def warm(self) -> None:
        """Connect and come as far as the fence, in the name of somebody who owns nothing."""
        self._sequencer.sequence(Fence("nobody", dict.fromkeys(range(SLOTS), 1)))

    def poll(self) -> int:
        """Make one pass and return how many records it moved."""
        return int(self._sequencer.sequence(self._fence).moved)

    def drain(self) -> int:
        """Move all there is and return how many records that were."""
        total = 0
        while moved := self.poll():
            total += moved
        return total

    def close(self) -> None:
        """Close its connections."""
        self._database.close()


def tape_of_drain(store: Store) -> Tape:
    """Move all that is staged in a store and return what ran on the driver."""
    tape: Tape = []
    with store.recording(tape), closing(Mover(store)) as mover:
        mover.drain()
    return tape


def count_logged(conn: Any) -> int:
    """Return how many records the log has, from the heads."""
    found = conn.execute("SELECT coalesce(sum(next_offset), 0) FROM penstock_head").fetchone()[0]
    conn.commit()
    return int(found)


def count_staged(conn: Any) -> int:
    """Return how many events are staged."""
    found = conn.execute("SELECT count(*) FROM penstock_staged").fetchone()[0]
    conn.commit()
    return int(found)
