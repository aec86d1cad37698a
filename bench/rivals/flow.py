"""The words that a rival's two processes answer while events flow. Standard library only.

`["install"]` makes the tables. A publisher answers `["connect", count]`, and `["publish", pace]` with what it
committed. A worker answers `["work"]` and works until its end; `["wait", count, seconds]` with how many it
has handled by then, and `["seen"]` with the number and the moment of each, which it then forgets.
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

_LOOK_SECONDS = 0.02


class Seen:
    """What a worker has handled."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int]] = []

    def note(self, number: int) -> None:
        """Write down that the handler of an event starts now."""
        self._rows.append((number, time.monotonic_ns()))

    async def wait(self, count: int, seconds: float) -> int:
        """Wait until so many were handled, or so long; return how many were."""
        end = time.monotonic() + seconds
        while len(self._rows) < count and time.monotonic() < end:
            await asyncio.sleep(_LOOK_SECONDS)
        return len(self._rows)

    def taken(self) -> list[tuple[int, int]]:
        """Return all, and forget them."""
        rows, self._rows = self._rows, []
        return rows


async def answer(rival: Any) -> None:
    """Answer line after line while everything else in the loop goes on; end the process with the lines."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, *args = json.loads(line)
        print(json.dumps(await getattr(rival, word)(*args)), flush=True)
    os._exit(0)  # a worker in the middle of its backlog would take its time
