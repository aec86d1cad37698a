"""Messages sent before those ahead of them are acknowledged: so many at a time, or so many a second."""

import select
import socket
import time
from typing import Protocol

_CHUNK = 256 * 1024  # bytes that are sent in one call
_SILENCE_SECONDS = 60.0
_BEHIND_SECONDS = 2.0  # how long what was sent in time may take to be acknowledged


class Pipelined(Protocol):
    """A connection whose answers can be counted."""

    socket: socket.socket

    def answers_in(self, data: bytes) -> int:
        """Return how many acknowledgements end in the bytes that came. Raises when one is a refusal."""


def in_flight(client: Pipelined, message: bytes, count: int, most: int) -> None:
    """Send a message so many times, with at most so many unacknowledged."""
    chunk = max(1, min(most, _CHUNK // len(message)))
    buffer = memoryview(message * chunk)
    sent = acknowledged = 0
    unsent = buffer[:0]
    client.socket.setblocking(False)
    try:
        while acknowledged < count:
            if not unsent and sent < count:
                more = min(chunk, count - sent, most - (sent - acknowledged))
                unsent = buffer[: more * len(message)]
                sent += more
            wanted = [client.socket] if unsent else []
            readable, writable, _ = select.select([client.socket], wanted, [], _SILENCE_SECONDS)
            assert readable or writable, f"{acknowledged} of {count} acknowledged, and no more"
            if writable:
                unsent = unsent[client.socket.send(unsent) :]
            if readable:
                acknowledged += client.answers_in(_received(client))
    finally:
        client.socket.setblocking(True)


def paced(client: Pipelined, message: bytes, rate: int, seconds: float) -> list[float]:
    """Send a message when it is due, whatever became of those before; return how long each took, in seconds.

    Counted from the moment it was due. What is not acknowledged soon after the end is left out.
    """
    took: list[float] = []
    count, sent = round(rate * seconds), 0
    unsent = memoryview(b"")
    client.socket.setblocking(False)
    begun = time.perf_counter()
    try:
        while len(took) < count:
            now = time.perf_counter() - begun
            if now > seconds + _BEHIND_SECONDS:
                break
            due = min(count, int(now * rate) + 1)
            if due > sent and not unsent:
                unsent = memoryview(message * (due - sent))
                sent = due
            pause = max(0.0, sent / rate - now) if sent < count else _BEHIND_SECONDS
            wanted = [client.socket] if unsent else []
            readable, writable, _ = select.select([client.socket], wanted, [], pause)
            if writable:
                unsent = unsent[client.socket.send(unsent) :]
            if readable:
                found = client.answers_in(_received(client))
                now = time.perf_counter() - begun
                took += [now - number / rate for number in range(len(took), len(took) + found)]
    finally:
        client.socket.setblocking(True)
    return took


def _received(client: Pipelined) -> bytes:
    data = client.socket.recv(1 << 18)
    if not data:
        raise ConnectionError("the server has ended the connection")
    return data
