"""procrastinate while events flow: a publisher or a worker. Runs with its own Python; argument: the address.

The async connector (psycopg with its C parts), an async task, ten at once, no lock (so no order), jobs
deleted when they are done, and LISTEN. An event is deferred on a connection of the user's, in a transaction
of its own.
"""

import asyncio
import logging
import sys
from typing import Any

import psycopg
from flow import Seen, answer  # type: ignore[import-not-found, unused-ignore]
from pacing import Pace, publish_in_tasks  # type: ignore[import-not-found, unused-ignore]
from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found, unused-ignore]

CONCURRENCY = 10
NOTE = "x" * 168


class Rival:
    """What the words mean."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._app = App(connector=PsycopgConnector(conninfo=url, min_size=CONCURRENCY, max_size=CONCURRENCY + 4))
        self._seen = Seen()
        self._publishers: list[Any] = []
        self._working: asyncio.Task[None] | None = None

        @self._app.task(name="order")  # type: ignore[untyped-decorator, unused-ignore]
        async def handle(order_id: int, note: str) -> None:
            self._seen.note(order_id)

    async def install(self) -> None:
        """Make the tables."""
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()

    async def connect(self, count: int) -> None:
        """Open the connections that publish."""
        await self._app.open_async()
        opened = [await psycopg.AsyncConnection.connect(self._url) for _ in range(count)]
        self._publishers = [self._publisher(conn) for conn in opened]

    async def publish(self, pace: dict[str, Any]) -> Any:
        """Publish at a pace."""
        made = Pace(**pace)
        return await publish_in_tasks(made, self._publishers[: made.connections])

    async def work(self) -> None:
        """Begin to work."""
        await self._app.open_async()
        self._working = asyncio.create_task(
            self._app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="always", install_signal_handlers=False)
        )

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
        async def publish(number: int) -> None:
            task = self._app.configure_task("order", connection=conn)
            await task.defer_async(order_id=number, note=NOTE)
            await conn.commit()

        return publish


if __name__ == "__main__":
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    with asyncio.Runner() as runner:
        runner.run(answer(Rival(sys.argv[1])))
