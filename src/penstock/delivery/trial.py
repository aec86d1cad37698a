"""The suspects of a partition: records that may have killed their process. No I/O.

A record is blamed only for a death at which its row says that it was the only record running in its process;
any other death only makes the records in flight suspect. Each death narrows the number of suspects that may
run at once: after the first death all of them, after the second a few, written down before they begin, and
those written down at a further death one at a time, alone (docs/decisions/0022-blame.md).
"""

from collections.abc import Callable

import msgspec

ALONE_DEATHS = 3  # a record that has killed this many processes while running alone is put off
_FEWER_DEATHS = 2
_FIRST_WAIT_MS = 60_000
_LONGEST_WAIT_MS = 3_600_000


class Trial(msgspec.Struct, omit_defaults=True, rename={"deaths": "d", "epoch": "e", "at_work": "w"}):
    """The suspects of one partition. Stored in its cursor's row; only the owner changes it.

    `deaths`: processes that died with the partition, since everything they had in flight was settled.
    `at_work`: the suspects that the owner of `epoch` had begun; `is_alone`: it had begun nothing else.
    `alone`: those that run alone from now on, each with the number of processes it has killed.
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
        """Record that the owner of an epoch has died; return the records to be put off for it."""
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
        """Record that a suspect is about to begin; store the trial before it does."""
        if self.epoch != epoch:
            self.epoch, self.at_work = epoch, set()
        self.at_work.add(offset)
        self.is_alone = alone

    def end(self, offset: int) -> None:
        """Record that a record no longer runs: its process has survived it."""
        self.at_work.discard(offset)
        self.is_alone = False

    def clear(self, offset: int) -> None:
        """Clear a suspect."""
        self.end(offset)
        self.alone.pop(offset, None)

    def calm(self) -> None:
        """Record that everything lost owners may have handed out is settled."""
        self.deaths = 0

    def keep(self, waits_for: Callable[[int], bool]) -> None:
        """Forget the suspects that are settled."""
        if self.alone:
            self.alone = {offset: deaths for offset, deaths in self.alone.items() if waits_for(offset)}

    def encode(self) -> str:
        """Return it as stored in its row."""
        return "" if self.is_empty else msgspec.json.encode(self).decode()


def stored_trial(text: str) -> Trial:
    """Undo `encode`."""
    return msgspec.json.decode(text, type=Trial) if text else Trial()


def wait_ms(deaths: int) -> int:
    """Return how long a record is put off after it has killed `deaths` processes."""
    return min(_FIRST_WAIT_MS << min(deaths - ALONE_DEATHS, 10), _LONGEST_WAIT_MS)
