"""PgQueuer at its fast settings. Runs with its own Python; arguments: the database's address.

asyncpg and uvloop, as in PgQueuer's own benchmark; an async entrypoint that does nothing; jobs are taken and
their ends written in batches of a thousand (the default is ten).
"""

import asyncio
import json
import sys
from datetime import timedelta
from typing import Any

import asyncpg  # type: ignore[import-not-found, unused-ignore]
import uvloop  # type: ignore[import-not-found, unused-ignore]
from pgqueuer import PgQueuer  # type: ignore[import-not-found, unused-ignore]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found, unused-ignore]
from pgqueuer.queries import Queries  # type: ignore[import-not-found, unused-ignore]
from pgqueuer.types import QueueExecutionMode  # type: ignore[import-not-found, unused-ignore]

BATCH = 1000
CHUNK = 1000
PAYLOAD = b'{"order_id": 1, "note": "' + b"x" * 173 + b'"}'


class Rival:
    """What the words mean."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._conn: Any = None
        self._done = 0

    async def install(self) -> None:
        """Make the tables."""
        await Queries(AsyncpgDriver(await self._connect())).install()

    async def enqueue(self, count: int) -> None:
        """Add jobs."""
        queries = Queries(AsyncpgDriver(await self._connect()))
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            await queries.enqueue(["noop"] * size, [PAYLOAD] * size, [0] * size)

    async def close(self) -> None:
        """Leave the database."""
        if self._conn is not None:
            await self._conn.close()
            self._conn = None

    async def ready(self) -> None:
        """Connect."""
        await self._connect()

    async def work(self, count: int) -> int:
        """Do all jobs that wait; return how many."""
        pgq = PgQueuer(AsyncpgDriver(await self._connect()))
        self._done = 0

        @pgq.entrypoint("noop")  # type: ignore[untyped-decorator, unused-ignore]
        async def noop(job: Any) -> None:
            self._done += 1

        # The manager alone: `pgq.run` would add the loop that looks for scheduled jobs.
        await pgq.qm.run(batch_size=BATCH, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(milliseconds=10))
        return self._done

    async def _connect(self) -> Any:
        if self._conn is None:
            self._conn = await asyncpg.connect(self._url)
        return self._conn


def main() -> None:
    """Answer line after line."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rival = Rival(sys.argv[1])
        for line in sys.stdin:
            word, *args = json.loads(line)
            answer = runner.run(getattr(rival, word)(*args))
            print(json.dumps(answer), flush=True)
        runner.run(rival.close())


if __name__ == "__main__":
    main()
