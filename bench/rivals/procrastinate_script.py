"""procrastinate at its fast settings. Runs with its own Python; arguments: the database's address.

The async connector (psycopg with its C parts), an async task that does nothing, ten at once, no lock (so no
order), jobs deleted when they are done; a worker that ends when it has caught up, without LISTEN.
"""

import asyncio
import json
import logging
import sys

from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found, unused-ignore]

CONCURRENCY = 10
CHUNK = 1000
NOTE = "x" * 173


def app_on(url: str) -> App:
    """Return the app with its one task."""
    app = App(connector=PsycopgConnector(conninfo=url, min_size=CONCURRENCY, max_size=CONCURRENCY + 4))

    @app.task(name="noop")  # type: ignore[untyped-decorator, unused-ignore]
    async def noop(order_id: int, note: str) -> None:
        pass

    return app


class Rival:
    """What the words mean."""

    def __init__(self, url: str) -> None:
        self._app = app_on(url)
        self._is_open = False

    async def install(self) -> None:
        """Make the tables."""
        await (await self._opened()).schema_manager.apply_schema_async()

    async def enqueue(self, count: int) -> None:
        """Add jobs."""
        app = await self._opened()
        for start in range(0, count, CHUNK):
            jobs = [{"order_id": number, "note": NOTE} for number in range(start, min(start + CHUNK, count))]
            await app.configure_task("noop").batch_defer_async(*jobs)

    async def close(self) -> None:
        """Leave the database."""
        if self._is_open:
            await self._app.close_async()
            self._is_open = False

    async def ready(self) -> None:
        """Connect."""
        await self._opened()

    async def work(self, count: int) -> int:
        """Do all jobs that wait; return how many."""
        app = await self._opened()
        await app.run_worker_async(
            wait=False,
            concurrency=CONCURRENCY,
            delete_jobs="always",
            listen_notify=False,
            install_signal_handlers=False,
        )
        left = await app.job_manager.list_jobs_async()
        return count - len(list(left))

    async def _opened(self) -> App:
        if not self._is_open:
            await self._app.open_async()
            self._is_open = True
        return self._app


def main() -> None:
    """Answer line after line."""
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    with asyncio.Runner() as runner:
        rival = Rival(sys.argv[1])
        for line in sys.stdin:
            word, *args = json.loads(line)
            answer = runner.run(getattr(rival, word)(*args))
            print(json.dumps(answer), flush=True)
        runner.run(rival.close())


if __name__ == "__main__":
    main()
