"""The laboratory: plays rounds, each in a fresh world, with processes killed at chosen places.

First a run without kills: its final state is the expected one, and its visits are the places to kill at. Then
one round for each place, and rounds of two random kills drawn from a seed. After a kill a new process
continues, with its clock moved past the lease of the old one, until nothing is pending.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import zip_longest

from penstock.app import Outbox
from penstock.errors import LabFailed
from penstock.membership.member import ClusterSettings

from ..clock import FakeClock
from ..outbox import memory_outbox
from .commits import holders, load, loaded
from .experiment import Experiment, InWorld
from .process import apart
from .report import LabFinding, Report
from .visits import HANDLER_CALLED, Visit
from .worlds import Worlds, worlds_at

OnProgress = Callable[[int, int, int], object]  # rounds played, rounds in total, findings so far

FIRST_DRAWN = 1_000_000  # a smaller seed is the number of a visit; from here on it draws two kills
_LAST_DRAWN = 1_000_000_000
_SILENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Round:
    """The course of a round: the final state of its last process, and the visits of each process."""

    end: str
    dead: int
    trails: tuple[tuple[Visit, ...], ...]
    kills: tuple[Visit, ...]
    drivers: tuple[str, ...]

    def calls(self) -> Counter[tuple[str | None, str | None]]:
        found = (each for trail in self.trails for each in trail if each.point == HANDLER_CALLED)
        return Counter((each.handler, each.id) for each in found)


class CrashLab:
    """A laboratory for the handlers of an outbox.

    | argument       | gets the world, and                                                            |
    |----------------|--------------------------------------------------------------------------------|
    | `publish`      | publishes some events, once, in the world that all rounds begin with            |
    | `state`        | returns the final state: rows, notes; compared by its printed form              |
    | `make`         | creates your tables, once, before `publish`                                     |
    | `enter`        | points your own connections and fakes to the world, first in every process      |

    The outbox may be that of your program: it works in the world's store, with its own clock. After the
    exhaustive rounds, `rounds` of two kills are drawn from `seed` (a third kill on one record would make it a
    dead letter). `server`: a `postgresql://` address where databases may be created, instead of SQLite files.
    `dead_letters`: the number that a run without kills leaves. `silence_seconds`: longest time without a
    visit before a process counts as hung.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        publish: InWorld,
        state: InWorld,
        make: InWorld | None = None,
        enter: InWorld | None = None,
        rounds: int = 20,
        seed: int = 0,
        server: str | None = None,
        dead_letters: int = 0,
        silence_seconds: float = _SILENCE_SECONDS,
    ) -> None:
        self._experiment = Experiment(outbox, publish, state, make, enter)
        self._rounds, self._seed, self._server = rounds, seed, server
        self._dead_letters, self._silence_seconds = dead_letters, silence_seconds
        self.name: str | None = None  # MODULE:LAB, if the command has loaded it

    def run(self, *, seed: int | None = None, rounds: int | None = None, progress: OnProgress | None = None) -> Report:
        """Play every place once, then rounds of two kills. Raises LabFailed if runs without kills fail or differ."""
        drawn = self._drawn(self._seed if seed is None else seed, self._rounds if rounds is None else rounds)
        return self._play(lambda places: [*range(1, places + 1), *drawn], progress)

    def replay(self, seed: int) -> Report:
        """Play the one round of a finding's seed. Raises LabFailed as `run` does."""
        if not 1 <= seed < _LAST_DRAWN:
            raise LabFailed(f"seed {seed} is not valid here; take one from a finding")
        return self._play(lambda places: [seed], None)

    def _drawn(self, seed: int, rounds: int) -> list[int]:
        rng = random.Random(seed)
        return [rng.randrange(FIRST_DRAWN, _LAST_DRAWN) for _ in range(rounds)]

    def _play(self, seeds_of: Callable[[int], list[int]], progress: OnProgress | None) -> Report:
        _warm_up()
        with worlds_at(self._server) as worlds:
            apart(partial(self._experiment.prepare, worlds), silence_seconds=self._silence_seconds)
            worlds.keep()
            expected = self._expected(worlds)
            visits = expected.trails[0]
            seeds = seeds_of(len(visits))
            findings, missed = list[LabFinding](), list[int]()
            for number, seed in enumerate(seeds, 1):
                played = self._round(worlds, kills_of(seed, len(visits)))
                if not played.kills:
                    missed.append(seed)
                elif played.end != expected.end:
                    findings.append(_finding(seed, expected, played))
                if progress is not None:
                    progress(number, len(seeds), len(findings))
        return Report(visits, len(seeds), tuple(findings), tuple(missed), self.name)

    def _expected(self, worlds: Worlds) -> _Round:
        """Return a run without kills, after checking that a second one is equal. Raises LabFailed."""
        first = self._round(worlds, ())
        if new := [name for name in first.drivers if name not in loaded()]:
            load(new)  # a handler imported it: from now on its commits are observed
            first = self._round(worlds, ())
        again = self._round(worlds, ())
        if first.end != again.end or first.trails != again.trails:
            raise LabFailed(
                "two runs without any kill differ, so kills prove nothing; do the handlers or state() use "
                f"random values, unsorted results or the time of day?\n{_difference(first, again)}"
            )
        if first.dead != self._dead_letters:
            raise LabFailed(
                f"a run without any kill leaves {first.dead} dead letters, not {self._dead_letters}; "
                f"make the handlers work first, or pass dead_letters={first.dead}\n{first.end}"
            )
        if not first.calls():
            raise LabFailed("no handler is called for published events; do types, topics and groups match?")
        return first

    def _round(self, worlds: Worlds, kills: tuple[int, ...]) -> _Round:
        """Play one round: a process for each kill while they die, then one without a kill."""
        worlds.renew()
        at_ms, trails, killed = FakeClock().now_ms(), list[tuple[Visit, ...]](), list[Visit]()
        for number, kill_at in enumerate((*kills, None)):
            work = partial(self._experiment.work, worlds, number=number, at_ms=at_ms, kill_at=kill_at)
            ended = apart(work, silence_seconds=self._silence_seconds)
            trails.append(tuple(Visit(**each) for each in ended.messages.get("visit", ())))
            if not ended.killed:
                break
            killed.append(trails[-1][-1])
            worlds.calm()
            at_ms = ended.last("clock") + 2 * ClusterSettings.load().lease_ttl // timedelta(milliseconds=1)
        end = ended.last("end")
        return _Round(end["text"], end["dead"], tuple(trails), tuple(killed), tuple(ended.last("drivers")))


def _warm_up() -> None:
    """Do the reads, imports and lookups once in this process that every child would repeat."""
    holders.cache_clear()
    holders()
    outbox = memory_outbox()
    outbox.handler(group="warm-up", id="warm-up")([].append)
    with outbox.transaction() as conn:
        outbox.publish(conn, "warm-up", None)
    outbox.drain()
    outbox.close()


def kills_of(seed: int, places: int) -> tuple[int, ...]:
    """Return the visits at which a round's processes are killed: the seed itself, or two drawn from it."""
    if seed < FIRST_DRAWN:
        return (seed,)
    rng = random.Random(seed)
    return rng.randint(1, places), rng.randint(1, places)


def _finding(seed: int, expected: _Round, played: _Round) -> LabFinding:
    more = played.calls() - expected.calls()
    handlers = tuple(sorted({handler for handler, _ in more if handler is not None}))
    return LabFinding(seed, played.kills, handlers, expected.end, played.end)


def _difference(one: _Round, other: _Round) -> str:
    if one.end != other.end:
        return "\n".join(_finding(0, one, other).diff)
    pairs = zip_longest(one.trails[0], other.trails[0])
    return next(f"- {mine}\n+ {theirs}" for mine, theirs in pairs if mine != theirs)
