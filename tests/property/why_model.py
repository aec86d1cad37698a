"""What a store has to do, as lists: the reference that `why` is held against."""

from dataclasses import dataclass, field
from typing import Literal

from penstock.operate.why import Code

DELAY_MS = 10_000
Mode = Literal["hold", "release", "alone"]


@dataclass
class Key:
    """What one group has to do for one key; numbers are records, in order."""

    mode: Mode
    queue: list[int] = field(default_factory=list)
    failures: int = 0
    due_ms: int = 0
    alone: dict[int, tuple[int, int]] = field(default_factory=dict)  # failures, due
    dead: list[int] = field(default_factory=list)
    delivered: set[int] = field(default_factory=set)
    discarded: dict[int, bool] = field(default_factory=dict)  # by its id, or among others
    unread: set[int] = field(default_factory=set)  # in the log, where the group has not looked since

    @property
    def held(self) -> bool:
        """Whether a dead letter holds it."""
        return self.mode == "hold" and bool(self.dead)

    def drain(self, failing: set[int], now_ms: int) -> list[int]:
        """Do all that is due; return what was handed out."""
        out = []
        self.unread.clear()
        for number in [each for each, (_, due_ms) in self.alone.items() if due_ms <= now_ms]:
            out.append(number)
            failures, _ = self.alone.pop(number)
            if number not in failing:
                self.delivered.add(number)
            elif failures:
                self.dead.append(number)
            else:
                self.alone[number] = 1, now_ms + DELAY_MS
        while self.queue and not self.held and self.due_ms <= now_ms:
            out.append(number := self.queue[0])
            if number in failing and self.mode != "alone" and not self.failures:
                self.failures, self.due_ms = 1, now_ms + DELAY_MS
                continue
            self.queue.pop(0)
            self.failures = self.due_ms = 0
            if number not in failing:
                self.delivered.add(number)
            elif self.mode == "alone":
                self.alone[number] = 1, now_ms + DELAY_MS
            else:
                self.dead.append(number)
        return out

    def requeue(self, numbers: list[int]) -> None:
        """Put dead letters back."""
        self.dead = [each for each in self.dead if each not in numbers]
        if self.mode == "hold":
            self.queue[:0] = numbers
        else:
            self.alone |= dict.fromkeys(numbers, (0, 0))

    def discard(self, numbers: list[int], *, by_id: bool) -> None:
        """Let dead letters go."""
        self.dead = [each for each in self.dead if each not in numbers]
        self.discarded |= dict.fromkeys(numbers, by_id)

    def code(self, number: int, now_ms: int, hindered: Code | None) -> Code:
        """Return what must be said of a record that is in the log."""
        if number in self.delivered:
            return Code.DELIVERED
        if number in self.discarded:
            return Code.DISCARDED if self.discarded[number] else Code.DELIVERED
        if number in self.dead:
            return Code.HELD if self.held else Code.DEAD
        if number in self.alone:
            return Code.PARKED if self.alone[number][1] > now_ms else hindered or Code.IN_WORK
        first = self.queue[0] == number
        if self.held:
            return Code.BEHIND
        if self.due_ms > now_ms:
            return Code.PARKED if first else Code.BEHIND
        return hindered or (Code.IN_WORK if first else Code.BEHIND)

    def until(self, number: int, now_ms: int) -> int | None:
        """Return when that changes by itself, if it is known."""
        due_ms = self.alone[number][1] if number in self.alone else self.due_ms
        waits = number in self.alone or (number in self.queue and not self.held)
        return due_ms if waits and due_ms > now_ms else None

    def heads(self) -> list[int]:
        """Return the records one of which is to be told of for the whole key; none: any that is done."""
        if self.held:
            return self.dead
        return self.queue[:1] or list(self.alone) or self.dead

    def has_work(self, now_ms: int) -> bool:
        """Return whether something is to be done now."""
        runs = self.queue and not self.held and self.due_ms <= now_ms
        return bool(runs or self.unread or any(due_ms <= now_ms for _, due_ms in self.alone.values()))
