"""When events are published: an open loop, whose next event never waits for the one before to be handled.

Standard library only: the rivals' own Pythons import it as well. The schedule is fixed before the first
event. A publisher that is late goes on at once, and what it should have published meanwhile keeps its due
time: a stall is seen by every event that it held up, not by one.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Thread

_LEAD_NS = 50_000_000  # so that every thread stands ready at the start
_LATE = 1.1  # how long a publisher that cannot keep up goes on, in parts of the time it has

Row = tuple[int, int, int]  # number, due, committed; nanoseconds on the clock that all processes share


@dataclass(frozen=True)
class Pace:
    """How many events a second (None: as fast as it goes), for how long, on how many connections."""

    rate: float | None
    seconds: float
    connections: int = 1
    first: int = 0  # the number of the first event

    def turns(self, connection: int, start_ns: int, flood: Iterator[int]) -> Iterator[tuple[int, int]]:
        """Yield the number and due time of each event of one connection.

        `flood` gives the numbers when there is no rate; the connections share it.
        """
        if self.rate is None:
            end_ns = start_ns + int(self.seconds * 1e9)
            while (now_ns := time.monotonic_ns()) < end_ns:
                yield next(flood), now_ns
            return
        end_ns = start_ns + int(self.seconds * _LATE * 1e9)
        for turn in range(connection, round(self.rate * self.seconds), self.connections):
            if turn != connection and time.monotonic_ns() > end_ns:  # the first is always published
                return
            yield self.first + turn, start_ns + int(turn / self.rate * 1e9)


def publish_in_threads(pace: Pace, publishers: Sequence[Callable[[int], object]]) -> list[Row]:
    """Publish by calls that return when their event is committed, a thread for each; return what was done.

    Raises what a publisher raised.
    """
    rows: list[Row] = []
    errors: list[BaseException] = []
    start_ns, flood = time.monotonic_ns() + _LEAD_NS, itertools.count(pace.first)

    def run(connection: int, publish: Callable[[int], object]) -> None:
        try:
            for number, due_ns in pace.turns(connection, start_ns, flood):
                if (early_ns := due_ns - time.monotonic_ns()) > 0:
                    time.sleep(early_ns / 1e9)
                publish(number)
                rows.append((number, due_ns, time.monotonic_ns()))
        except BaseException as exc:
            errors.append(exc)

    threads = [Thread(target=run, args=pair) for pair in enumerate(publishers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return rows


async def publish_in_tasks(pace: Pace, publishers: Sequence[Callable[[int], Awaitable[object]]]) -> list[Row]:
    """Do the same in an event loop, a task for each."""
    rows: list[Row] = []
    start_ns, flood = time.monotonic_ns() + _LEAD_NS, itertools.count(pace.first)

    async def run(connection: int, publish: Callable[[int], Awaitable[object]]) -> None:
        for number, due_ns in pace.turns(connection, start_ns, flood):
            if (early_ns := due_ns - time.monotonic_ns()) > 0:
                await asyncio.sleep(early_ns / 1e9)
            await publish(number)
            rows.append((number, due_ns, time.monotonic_ns()))

    await asyncio.gather(*(run(*pair) for pair in enumerate(publishers)))
    return rows
