"""Adds records that clients send: in the event loop if this needs no waiting, else in a thread of the door.

A locked partition holds a thread of the door only briefly (`lock_waits`): only its own writers wait.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

from penstock.clock import Clock
from penstock.log.sql.lock_waits import LockWaits
from penstock.log.store import Store
from penstock.model.limits import LimitsSettings
from penstock.model.token import GivenToken
from penstock.operate.producer import AppendedRecord, RecordWanted, produce, produce_at_once

SMALL_BYTES = 16 * 1024  # of a request that the loop parses: larger ones would delay others
_AT_ONCE_BYTES, _AT_ONCE_RECORDS = 24 * 1024, 100  # added in the loop: half a millisecond


class Adding:
    """Adds records for the clients of one door. In its event loop."""

    def __init__(self, store: Store, clock: Clock, threads: Executor, limits: LimitsSettings) -> None:
        self._store, self._clock, self._limits = store, clock, limits
        self._waits = LockWaits(store.database, threads)

    async def add(
        self,
        topic: str,
        records: Sequence[RecordWanted],
        *,
        partition: int | None = None,
        token: GivenToken | None = None,
        at_once: bool = True,
    ) -> list[AppendedRecord]:
        """Add records; return their partitions and offsets once they are durable. Raises as `produce` does.

        `at_once`: in the loop if possible. Not for a stream, whose next requests gather meanwhile.
        """
        given = {"partition": partition, "limits": self._limits, "clock": self._clock}
        if at_once and token is None and _is_little(records):
            found = produce_at_once(self._store, topic, records, **given)  # type: ignore[arg-type]
            if found is not None:
                return found
        work = partial(produce, self._store, topic, records, token=token, **given)  # type: ignore[arg-type]
        return await self._waits.run(work)


def _is_little(records: Sequence[RecordWanted]) -> bool:
    return len(records) <= _AT_ONCE_RECORDS and (
        sum([len(each.value) for each in records if each.value is not None]) <= _AT_ONCE_BYTES
    )
