"""PgQueuer while events flow: a publisher or a worker. Runs with its own Python; argument: the address.

asyncpg and uvloop, as in PgQueuer's own benchmark. An event is enqueued in a transaction of its own, as
beside a row of the user's. The ends of jobs are written a thousand at a time, or after a tenth of a second.
"""

import asyncio
import json
import sys
from typing import Any

import asyncpg  # type: ignore[import-not-found, unused-ignore]
import uvloop  # type: ignore[import-not-found, unused-ignore]
from flow import Seen, answer  # type: ignore[import-not-found, unused-ignore]
from pacing import Pace, publish_in_tasks  # type: ignore[import-not-found, unused-ignore]
from pgqueuer import PgQueuer  # type: ignore[import-not-found, unused-ignore]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found, unused-ignore]
from pgqueuer.queries import Queries  # type: ignore[import-not-found, unused-ignore]

BATCH = 1000
NOTE = "x" * 168


class Rival:
    """What the words mean."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._seen = Seen()
        self._publishers: list[Any] = []
        self._working: asyncio.Task[None] | None = None

    async def install(self) -> None:
        """Make the tables."""
        conn = await asyncpg.connect(self._url)
        await Queries(AsyncpgDriver(conn)).install()
        await conn.close()

    async def connect(self, count: int) -> None:
        """Open the connections that publish."""
        self._publishers = [self._publisher(await asyncpg.connect(self._url)) for _ in range(count)]

    async def publish(self, pace: dict[str, Any]) -> Any:
        """Publish at a pace."""
        made = Pace(**pace)
        return await publish_in_tasks(made, self._publishers[: made.connections])

    async def work(self) -> None:
        """Begin to work."""
        pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(self._url)))

        @pgq.entrypoint("order")  # type: ignore[untyped-decorator, unused-ignore]
        async def handle(job: Any) -> None:
            self._seen.note(json.loads(job.payload)["order_id"])

        # The manager alone: `pgq.run` would add the loop that looks for scheduled jobs.
        self._working = asyncio.create_task(pgq.qm.run(batch_size=BATCH))

    async def wait(self, count: int, seconds: float) -> int:
        """Wait for what is handled."""
        assert self._working is not None
        if self._working.done():
            self._working.result()
        return int(await self._seen.wait(count, seconds))

    async def seen(self) -> Any:
        """Say what was handled."""
        return self._seen.taken()

    def _publisher(self, conn: Any) -> Any:
        queries = Queries(AsyncpgDriver(conn))

        async def publish(number: int) -> None:
            async with conn.transaction():
                await queries.enqueue("order", json.dumps({"order_id": number, "note": NOTE}).encode())

        return publish


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(answer(Rival(sys.argv[1])))
