"""The sequencing service: a thread that keeps a member alive and moves what is staged in its slots.

A database that is away stops nothing for good: the service waits with backoff, says so once, and goes on by
itself when the database is back.
"""

import logging
import random
from threading import Event, Thread

from penstock.clock import Clock
from penstock.errors import Error
from penstock.log.sql.database import Database
from penstock.membership.member import ClusterSettings, Member
from penstock.outbox.sequencer import Sequencer, SequencerSettings
from penstock.settings import Settings, setting

log = logging.getLogger("penstock.sequencing")


class PollingSettings(Settings, room="polling"):
    """How often the sequencer looks when nobody rings."""

    shortest_seconds: float = setting(0.05, "Pause between looks just after there was work.", at_least=0.001)
    longest_seconds: float = setting(1.0, "Longest pause between looks when nothing comes.", at_least=0.001)


class SequencingService:
    """Runs a sequencer in a thread of its own. `start` and `stop` may be called twice."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        cluster: ClusterSettings | None = None,
        sequencer: SequencerSettings | None = None,
        polling: PollingSettings | None = None,
    ) -> None:
        self._cluster = cluster or ClusterSettings.load()
        self._polling = polling or PollingSettings.load()
        self._member = Member(database, self._cluster, clock)
        self._sequencer = Sequencer(database, sequencer or SequencerSettings.load(), clock)
        self._clock = clock
        self._stopping, self._bell = Event(), Event()
        self._thread: Thread | None = None
        self._trouble_said = ""

    def start(self) -> None:
        """Begin; returns at once."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = Thread(target=self._run, name="penstock-sequencer", daemon=True)
            self._thread.start()

    def ring(self) -> None:
        """Say that something was staged; the next look comes at once."""
        self._bell.set()

    def stop(self) -> None:
        """End after the pass under way, giving the slots back; returns when the work is down."""
        self._stopping.set()
        self._bell.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        next_beat, pause = 0.0, self._polling.shortest_seconds
        joined = False
        while not self._stopping.is_set():
            try:
                if self._clock.monotonic() >= next_beat:
                    next_beat = self._clock.monotonic() + self._cluster.heartbeat_interval.total_seconds()
                    if joined:
                        self._member.heartbeat()
                    else:
                        self._member.join()
                        joined = True
                    self._member.take()
                done = self._sequencer.sequence(self._member.fence)
                self._is_well()
            except Exception as exc:
                next_beat = 0.0
                pause = self._trouble(exc, pause)
                continue
            pause = self._polling.shortest_seconds if done.moved else self._longer(pause)
            if not done.full:
                self._wait(min(pause, max(next_beat - self._clock.monotonic(), 0.0)))
        self._leave(joined)

    def _trouble(self, error: Exception, pause: float) -> float:
        """Wait after an error; each kind is said once, when it begins, a surprise with its trace."""
        kind = type(error).__name__
        if kind != self._trouble_said:
            surprise = not isinstance(error, Error)
            log.warning("sequencing waits and tries again: %s", error, exc_info=surprise)
        self._trouble_said = kind
        self._stopping.wait(pause + random.uniform(0, pause / 2))
        return self._longer(pause)

    def _is_well(self) -> None:
        if self._trouble_said:
            log.warning("sequencing goes on")
            self._trouble_said = ""

    def _longer(self, pause: float) -> float:
        return min(pause * 2, self._polling.longest_seconds)

    def _wait(self, seconds: float) -> None:
        self._bell.wait(seconds * random.uniform(0.8, 1.0))  # so that many processes do not look in step
        self._bell.clear()

    def _leave(self, joined: bool) -> None:
        try:
            if joined:
                self._member.leave()
        except Exception:
            log.warning("could not give the slots back; others take them when the lease ends", exc_info=True)
