"""What is known of the records of a partition that may have killed their process. No I/O.

A record is blamed only for a death in which it was the one record at work in its process, as its row says; a
death of any other kind only makes what was out suspect. Each death narrows what may run at once among the
suspects: after the first all of them, after the second a few, written down before they begin, and of those
that were written down at a further death one, alone (docs/decisions/0022-blame.md).
"""

from collections.abc import Callable

import msgspec

ALONE_DEATHS = 3  # a record that has killed so many processes by itself is put off
_FEWER_DEATHS = 2
_FIRST_WAIT_MS = 60_000
_LONGEST_WAIT_MS = 3_600_000


class Trial(msgspec.Struct, omit_defaults=True, rename={"deaths": "d", "epoch": "e", "at_work": "w"}):
    """The suspects of one partition. Stored in its cursor's row by the owner, who alone changes it.

    `deaths`: processes that died with the partition, since all they had out was settled. `at_work`: the
    suspects that the owner of `epoch` had begun; `is_alone`: it had begun nothing else. `alone`: those that
    go alone from now on, each with how many processes died of it.
    """

    deaths: int = 0
    epoch: int = 0
    at_work: set[int] = msgspec.field(default_factory=set)
    is_alone: bool = False
    alone: dict[int, int] = msgspec.field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is suspected."""
        return not (self.deaths or self.at_work or self.alone)

    @property
    def goes_by_few(self) -> bool:
        """Whether only a few suspects of the partition may be at work at once."""
        return self.deaths >= _FEWER_DEATHS

    def died(self, epoch: int) -> set[int]:
        """Take note that the owner of an epoch has died; return the records that are to be put off for it."""
        self.deaths += 1
        killers = set[int]()
        if self.epoch == epoch:
            for offset in self.at_work:
                self.alone[offset] = self.alone.get(offset, 0) + self.is_alone
                if self.is_alone and self.alone[offset] >= ALONE_DEATHS:
                    killers.add(offset)
        self.at_work, self.is_alone = set(), False
        return killers

    def begin(self, epoch: int, offset: int, *, alone: bool = False) -> None:
        """Take note that a suspect is about to begin; to be stored before it does."""
        if self.epoch != epoch:
            self.epoch, self.at_work = epoch, set()
        self.at_work.add(offset)
        self.is_alone = alone

    def end(self, offset: int) -> None:
        """Take note that a record is no longer at work: its process has survived it."""
        self.at_work.discard(offset)
        self.is_alone = False

    def clear(self, offset: int) -> None:
        """Take a suspicion back."""
        self.end(offset)
        self.alone.pop(offset, None)

    def calm(self) -> None:
        """Take note that all that lost owners may have handed out is settled."""
        self.deaths = 0

    def keep(self, waits_for: Callable[[int], bool]) -> None:
        """Forget the suspects that are settled."""
        if self.alone:
            self.alone = {offset: deaths for offset, deaths in self.alone.items() if waits_for(offset)}

    def encode(self) -> str:
        """Return it as its row holds it."""
        return "" if self.is_empty else msgspec.json.encode(self).decode()


def stored_trial(text: str) -> Trial:
    """Undo `encode`."""
    return msgspec.json.decode(text, type=Trial) if text else Trial()


def wait_ms(deaths: int) -> int:
    """Return how long a record is put off after it has killed so many processes."""
    return min(_FIRST_WAIT_MS << min(deaths - ALONE_DEATHS, 10), _LONGEST_WAIT_MS)
