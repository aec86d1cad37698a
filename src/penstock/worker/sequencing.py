"""The sequencing service: a thread that moves what is staged in the slots of a member.

A database that is away stops nothing for good: the service waits with backoff, says so once, and goes on by
itself when the database is back.
"""

import logging
from collections.abc import Callable
from threading import Event, Thread

from penstock.clock import Clock
from penstock.log.sql.database import Database
from penstock.membership.member import ClusterSettings, Member
from penstock.outbox.sequencer import Sequencer, SequencerSettings

from .patience import Patience, PollingSettings

log = logging.getLogger("penstock.sequencing")


class SequencingService:
    """Runs a sequencer in a thread of its own. `start` and `stop` may be called twice.

    By itself it is a member that takes every slot nobody living owns. In a worker it is given the worker's
    member, which others keep alive, and works on the slots that one owns.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        cluster: ClusterSettings | None = None,
        sequencer: SequencerSettings | None = None,
        polling: PollingSettings | None = None,
        member: Member | None = None,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """`moved` is called after each move that put something into the log."""
        self._cluster = cluster or ClusterSettings.load()
        self._member = member or Member(database, self._cluster, clock)
        self._is_own = member is None
        self._sequencer = Sequencer(database, sequencer or SequencerSettings.load(), clock)
        self._clock, self._moved = clock, moved
        self._stopping, self._bell = Event(), Event()
        self._thread: Thread | None = None
        self._patience = Patience("sequencing", polling or PollingSettings.load())

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
        thread = self._thread  # another thread may be stopping it too
        if thread is not None:
            thread.join()
            self._thread = None

    def _run(self) -> None:
        next_beat, joined = 0.0, False
        while not self._stopping.is_set():
            try:
                if self._is_own and self._clock.monotonic() >= next_beat:
                    next_beat = self._clock.monotonic() + self._cluster.heartbeat_interval.total_seconds()
                    self._beat(joined)
                    joined = True
                done = self._sequencer.sequence(self._member.fence)
                self._patience.is_well()
            except Exception as exc:
                next_beat = 0.0
                self._stopping.wait(self._patience.trouble(exc))
                continue
            if done.moved:
                self._moved()
            pause = self._patience.active() if done.moved else self._patience.idle()
            if not done.full:
                if self._is_own:
                    pause = min(pause, max(next_beat - self._clock.monotonic(), 0.0))
                self._bell.wait(pause)
                self._bell.clear()
        if joined:
            self._leave()

    def _beat(self, joined: bool) -> None:
        if joined:
            self._member.heartbeat()
        else:
            self._member.join()
        self._member.take()

    def _leave(self) -> None:
        try:
            self._member.leave()
        except Exception:
            log.warning("could not give the slots back; others take them when the lease ends", exc_info=True)
