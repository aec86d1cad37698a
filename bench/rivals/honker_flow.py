"""honker while events flow, a queue in a SQLite file. Runs with its own Python; argument: the file.

An event is enqueued in a transaction of its own, on a connection that honker opens (synchronous=NORMAL: a
commit waits for no disk). The worker wakes on honker's own watcher, which looks every millisecond, and claims
and acknowledges a hundred at a time: its iterator takes one per transaction.
"""

import asyncio
import sys
from typing import Any

import honker  # type: ignore[import-not-found, unused-ignore]
from flow import Seen, answer  # type: ignore[import-not-found, unused-ignore]
from pacing import Pace, publish_in_threads  # type: ignore[import-not-found, unused-ignore]

BATCH = 100
NOTE = "x" * 168
ME = "worker"


class Rival:
    """What the words mean."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = Seen()
        self._publishers: list[Any] = []
        self._working: asyncio.Task[None] | None = None

    async def install(self) -> None:
        """Make the tables."""
        honker.open(self._path).queue("orders")

    async def connect(self, count: int) -> None:
        """Open the connections that publish."""
        self._publishers = [self._publisher(honker.open(self._path)) for _ in range(count)]

    async def publish(self, pace: dict[str, Any]) -> Any:
        """Publish at a pace."""
        made = Pace(**pace)
        return await asyncio.to_thread(publish_in_threads, made, self._publishers[: made.connections])

    async def work(self) -> None:
        """Begin to work."""
        self._working = asyncio.create_task(self._work())

    async def wait(self, count: int, seconds: float) -> int:
        """Wait for what is handled."""
        assert self._working is not None
        if self._working.done():
            self._working.result()
        return int(await self._seen.wait(count, seconds))

    async def seen(self) -> Any:
        """Say what was handled."""
        return self._seen.taken()

    async def _work(self) -> None:
        db = honker.open(self._path)
        queue, updates = db.queue("orders"), db.update_events()
        while True:
            jobs = queue.claim_batch(ME, BATCH)
            for job in jobs:
                self._seen.note(job.payload["order_id"])
            if jobs:
                queue.ack_batch([job.id for job in jobs], ME)
                await asyncio.sleep(0)
            else:
                await updates.__anext__()

    def _publisher(self, db: Any) -> Any:
        queue = db.queue("orders")

        def publish(number: int) -> None:
            with db.transaction() as tx:
                queue.enqueue({"order_id": number, "note": NOTE}, tx=tx)

        return publish


if __name__ == "__main__":
    with asyncio.Runner() as runner:
        runner.run(answer(Rival(sys.argv[1])))
