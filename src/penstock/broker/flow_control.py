"""Decides which connections are read, so that requests and answers stay within their byte budgets.

| count       | meaning                                                                    |
|-------------|----------------------------------------------------------------------------|
| `requests`  | bytes of requests that are not answered yet, or are being received         |
| `partial`   | of these, room reserved for large requests that have arrived only in part  |
| `answers`   | bytes of answers that are being read, or that clients have not taken yet   |

Above the bound nothing is read. Complete requests are answered, which frees their bytes. When only partial
requests are left, none of them would ever be complete: then a single connection may send until its request
is. So memory stays within the bound and one request.

A principal (for anonymous clients: an address) has at most as many bytes of requests under way as are left
free: half of the bound when it is alone. Beyond that its own connections are not read, except one that
completes its request. So no other client waits for requests that one sends only in part.

Answers have half of the bound (`ByteBudget.share`). One thread.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.access.places import ByteBudget, SharedPlaces


class _Sender(Protocol):
    """A connection: the holder of its bytes; whether a part of a large request has arrived."""

    @property
    def holder(self) -> str: ...
    @property
    def is_within(self) -> bool: ...
    def regulate(self) -> None: ...


class FlowControl:
    """Counts bytes, and resumes waiting connections when there is room. Lives in the loop's thread."""

    def __init__(self, most_bytes: int, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """`call_soon`: calls a function later, in the loop's thread."""
        self._most_bytes, self._call_soon = most_bytes, call_soon
        self.requests, self.answers = ByteBudget(most_bytes), ByteBudget(most_bytes // 2)
        self.partial = SharedPlaces(most_bytes)
        self.waiting: set[_Sender] = set()  # the connections that are not read
        self._finishing: _Sender | None = None
        self._finishing_of: dict[str, _Sender] = {}
        self._beyond: set[_Sender] = set()  # those whose holder has used its share

    @property
    def is_full(self) -> bool:
        """Whether more bytes are under way than allowed."""
        return self.requests.used + self.answers.used > self._most_bytes

    @property
    def is_short(self) -> bool:
        """Whether answers that no client takes leave too little to the others."""
        return self.answers.used > self.answers.most

    def may_send(self, sender: _Sender) -> bool:
        """Return whether a connection is read."""
        if not self.is_full:
            return self._has_share(sender)
        if self._finishing is None and sender.is_within and self._is_all_partial:
            self._finishing = sender
        return self._finishing is sender

    def answer(self, change: int) -> None:
        """Add bytes of an answer to the count, or subtract them."""
        was_full = self.is_full
        self.answers.count(None, change)
        if change < 0:
            self._freed(was_full)

    def add(self, size: int, holder: str) -> None:
        """Count bytes of a complete request."""
        self.requests.count((holder,), size)

    def release(self, size: int, holder: str) -> None:
        """Give back bytes of an answered request."""
        was_full = self.is_full
        self.requests.count((holder,), -size)
        self._freed(was_full)

    def receive(self, sender: _Sender, change: int) -> None:
        """Count room that a large request needs, or no longer needs."""
        was_full = self.is_full
        self.partial.count((sender.holder,), change)
        self.requests.count((sender.holder,), change)
        if not sender.is_within:
            self._end_finishing(sender)
        if change < 0:
            self._freed(was_full)

    def leave(self, sender: _Sender) -> None:
        """Forget a connection whose bytes have been given back."""
        self.waiting.discard(sender)
        self._beyond.discard(sender)
        if self._end_finishing(sender):
            self._freed(True)

    def move(self, sender: _Sender, old: str, whole: int, part: int) -> None:
        """Count the bytes of a connection, of complete requests and of a partial one, for its new holder."""
        if sender.holder == old:
            return
        for counts, size in ((self.requests, whole + part), (self.partial, part)):
            counts.count((old,), -size)
            counts.count((sender.holder,), size)
        if self._finishing_of.get(old) is sender:
            del self._finishing_of[old]
            self._look_again()

    def _has_share(self, sender: _Sender) -> bool:
        holder = sender.holder
        held = self.requests.held(holder)
        if held <= self._most_bytes - self.requests.used - self.answers.used:
            return True
        if holder not in self._finishing_of and sender.is_within and held == self.partial.held(holder):
            self._finishing_of[holder] = sender
        if self._finishing_of.get(holder) is sender:
            return True
        self._beyond.add(sender)
        return False

    @property
    def _is_all_partial(self) -> bool:
        return self.requests.used == self.partial.used

    def _end_finishing(self, sender: _Sender) -> bool:
        """Let another connection complete its request; return whether this one was to."""
        of_holder, of_all = self._finishing_of.get(sender.holder) is sender, self._finishing is sender
        if of_holder:
            del self._finishing_of[sender.holder]
        if of_all:
            self._finishing = None
        return of_holder or of_all

    def _freed(self, was_full: bool) -> None:
        self._look_again()
        if was_full and (not self.is_full or (self._finishing is None and self._is_all_partial)):
            for each in tuple(self.waiting):
                self._call_soon(each.regulate)

    def _look_again(self) -> None:
        if self._beyond:
            beyond, self._beyond = self._beyond, set()
            for each in beyond:
                self._call_soon(each.regulate)
