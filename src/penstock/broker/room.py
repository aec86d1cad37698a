"""Bounds the bytes of requests and answers in memory, over all connections.

| count       | meaning                                                                    |
|-------------|----------------------------------------------------------------------------|
| `under_way` | bytes of requests that are not answered yet, or are being received         |
| `receiving` | of these, room reserved for large requests that have arrived only in part  |
| `answering` | bytes of answers that are being read, or that clients have not taken yet   |

Above the bound nothing is read. Complete requests are answered, which frees their bytes. When only partial
requests are left, none of them would ever be complete: then a single connection may send until its request
is. So memory stays within the bound and one request.

A principal (for anonymous clients: an address) has at most as many bytes of requests under way as are left
free: half of the bound when it is alone. Beyond that its own connections are not read, except one that
completes its request. So no other client waits for requests that one sends only in part.

Answers have half of the bound. The less of it is left, the smaller the answers get: clients that do not take
them leave less and less to the others, but never nothing, and never the whole. One thread.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

_LEAST_ANSWER = 64 * 1024
_PARTS = 4  # an answer may use one such part of the room that is left


class Sender(Protocol):
    """A connection, as its bytes are counted."""

    @property
    def holder(self) -> str:
        """The holder of the bytes."""

    @property
    def is_within(self) -> bool:
        """Whether a part of a large request has arrived."""

    def regulate(self) -> None:
        """Pause or resume reading."""


class Room:
    """Counts bytes, and resumes waiting connections when there is room. Lives in the loop's thread."""

    def __init__(self, most_bytes: int, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """`call_soon`: calls a function later, in the loop's thread."""
        self._most_bytes, self._call_soon = most_bytes, call_soon
        self.under_way = self.receiving = self.answering = 0
        self.waiting: set[Sender] = set()  # the connections that are not read
        self._finishing: Sender | None = None
        self._held: Counter[str] = Counter()  # of `under_way`, by holder
        self._parts: Counter[str] = Counter()  # of `receiving`, by holder
        self._finishing_of: dict[str, Sender] = {}
        self._beyond: set[Sender] = set()  # those whose holder has used its share

    @property
    def is_full(self) -> bool:
        """Whether more bytes are under way than allowed."""
        return self.under_way + self.answering > self._most_bytes

    @property
    def is_short(self) -> bool:
        """Whether answers that no client takes leave too little to the others."""
        return self.answering > self._most_bytes // 2

    def share(self, most: int) -> int:
        """Return how many bytes an answer may have, `most` at most."""
        left = self._most_bytes // 2 - self.answering
        return min(most, max(_LEAST_ANSWER, left // _PARTS))

    def answer(self, change: int) -> None:
        """Add bytes of an answer to the count, or subtract them."""
        was_full = self.is_full
        self.answering += change
        if change < 0:
            self._look_again()
        if was_full and change < 0:
            self._let_go_on()

    def may_send(self, sender: Sender) -> bool:
        """Return whether a connection is read."""
        if not self.is_full:
            return self._has_share(sender)
        if self._finishing is None and sender.is_within and self.under_way == self.receiving:
            self._finishing = sender
        return self._finishing is sender

    def add(self, size: int, holder: str) -> None:
        """Count bytes of a complete request."""
        self.under_way += size
        self._held[holder] += size

    def release(self, size: int, holder: str) -> None:
        """Give back bytes of an answered request."""
        was_full = self.is_full
        self.under_way -= size
        self._count(holder, -size, 0)
        self._look_again()
        if was_full:
            self._let_go_on()

    def receive(self, sender: Sender, change: int) -> None:
        """Count room that a large request needs, or no longer needs."""
        was_full = self.is_full
        self.receiving += change
        self.under_way += change
        self._count(sender.holder, change, change)
        if self._finishing_of.get(sender.holder) is sender and not sender.is_within:
            del self._finishing_of[sender.holder]
        if change < 0:
            self._look_again()
        if self._finishing is sender and not sender.is_within:
            self._finishing = None
        if was_full and change < 0:
            self._let_go_on()

    def leave(self, sender: Sender) -> None:
        """Forget a connection whose bytes have been given back."""
        self.waiting.discard(sender)
        self._beyond.discard(sender)
        if self._finishing_of.get(sender.holder) is sender:
            del self._finishing_of[sender.holder]
            self._look_again()
        if self._finishing is sender:
            self._finishing = None
            self._let_go_on()

    def move(self, old: str, new: str, whole: int, part: int) -> None:
        """Move the bytes of a connection, of complete requests and of a partial one, to another holder."""
        self._count(old, -whole - part, -part)
        self._count(new, whole + part, part)

    def _has_share(self, sender: Sender) -> bool:
        holder = sender.holder
        held = self._held[holder]
        if held <= self._most_bytes - self.under_way - self.answering:
            return True
        if holder not in self._finishing_of and sender.is_within and held == self._parts[holder]:
            self._finishing_of[holder] = sender
        if self._finishing_of.get(holder) is sender:
            return True
        self._beyond.add(sender)
        return False

    def _count(self, holder: str, change: int, part: int) -> None:
        for counts, by in ((self._held, change), (self._parts, part)):
            if by:
                counts[holder] += by
                if not counts[holder]:
                    del counts[holder]

    def _look_again(self) -> None:
        if self._beyond:
            beyond, self._beyond = self._beyond, set()
            for each in beyond:
                self._call_soon(each.regulate)

    def _let_go_on(self) -> None:
        if not self.is_full or (self._finishing is None and self.under_way == self.receiving):
            for each in tuple(self.waiting):
                self._call_soon(each.regulate)
