"""A bare poll loop on a table in a SQLite file: what one writes first. Argument: the file.

The worker looks every ten milliseconds, takes what is there in the order of its ids and deletes it when it is
handled. WAL mode and synchronous=FULL, as Penstock has them. There are no retries, no owners and no keys.
"""

import asyncio
import json
import sqlite3
import sys
import time
from threading import Thread
from typing import Any

from flow import Seen, answer  # type: ignore[import-not-found, unused-ignore]
from pacing import Pace, publish_in_threads  # type: ignore[import-not-found, unused-ignore]

POLL_SECONDS = 0.01
BATCH = 1000
NOTE = "x" * 168


class Rival:
    """What the words mean."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = Seen()
        self._publishers: list[Any] = []

    async def install(self) -> None:
        """Make the table."""
        conn = self._opened()
        conn.execute("PRAGMA journal_mode=WAL")
        conn.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, payload TEXT NOT NULL)")
        conn.close()

    async def connect(self, count: int) -> None:
        """Open the connections that publish."""
        self._publishers = [self._publisher(self._opened()) for _ in range(count)]

    async def publish(self, pace: dict[str, Any]) -> Any:
        """Publish at a pace."""
        made = Pace(**pace)
        return await asyncio.to_thread(publish_in_threads, made, self._publishers[: made.connections])

    async def work(self) -> None:
        """Begin to work."""
        Thread(target=self._work, daemon=True).start()

    async def wait(self, count: int, seconds: float) -> int:
        """Wait for what is handled."""
        return int(await self._seen.wait(count, seconds))

    async def seen(self) -> Any:
        """Say what was handled."""
        return self._seen.taken()

    def _work(self) -> None:
        conn = self._opened()
        while True:
            rows = conn.execute("SELECT id, payload FROM job ORDER BY id LIMIT ?", (BATCH,)).fetchall()
            for _, payload in rows:
                self._seen.note(json.loads(payload)["order_id"])
            if rows:
                conn.executemany("DELETE FROM job WHERE id = ?", [(id,) for id, _ in rows])
                conn.commit()
            else:
                time.sleep(POLL_SECONDS)

    def _opened(self) -> sqlite3.Connection:
        conn = sqlite3.connect(self._path, timeout=30, check_same_thread=False)
        conn.execute("PRAGMA synchronous=FULL")
        return conn

    def _publisher(self, conn: sqlite3.Connection) -> Any:
        def publish(number: int) -> None:
            value = json.dumps({"order_id": number, "note": NOTE})
            conn.execute("INSERT INTO job (payload) VALUES (?)", (value,))
            conn.commit()

        return publish


if __name__ == "__main__":
    with asyncio.Runner() as runner:
        runner.run(answer(Rival(sys.argv[1])))
