"""The sequencing service: a thread that moves what is staged in the slots of a member.

When the database is unavailable, the service waits with back-off, logs it once, and goes on by itself when
the database is back.
"""

import logging
from collections import deque
from collections.abc import Callable
from threading import Event, Thread

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock
from penstock.log.store import Store
from penstock.membership.member import ClusterSettings, Member
from penstock.outbox.sequencer import Pass, Sequencer, SequencerSettings
from penstock.redaction import traced, words

logger = logging.getLogger("penstock.sequencing")


class SequencingService:
    """Runs a sequencer in a thread of its own. `start` and `stop` may be called twice.

    By itself it is a member that takes every slot nobody living owns. In a worker it is given the worker's
    member, which others keep alive, and works on the slots that one owns.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        cluster: ClusterSettings | None = None,
        sequencer: SequencerSettings | None = None,
        polling: PollingSettings | None = None,
        member: Member | None = None,
        sequenced: Callable[[Pass], None] = lambda done: None,
        hand_over_bytes: int = 0,
        is_told: Callable[[], bool] = lambda: False,
    ) -> None:
        """`sequenced` is called after each pass that moved something, or that was asked for and did not.

        It is also told what was moved, if that is no more than `hand_over_bytes`. `is_told`: whether a bell
        rings for what is staged.
        """
        self._cluster = cluster or ClusterSettings.load()
        self._member = member or Member(store.database, self._cluster, clock)
        self._is_own = member is None
        self._sequencer = Sequencer(
            store, sequencer or SequencerSettings.load(), clock, hand_over_bytes=hand_over_bytes
        )
        self._clock, self._sequenced = clock, sequenced
        self._told: deque[frozenset[int] | None] = deque()
        self._stopping, self._bell = Event(), Event()
        self._thread: Thread | None = None
        self._backoff = Backoff("sequencing", polling or PollingSettings.load(), is_told)

    def start(self) -> None:
        """Begin; returns at once."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = Thread(target=self._run, name="penstock-sequencer", daemon=True)
            self._thread.start()

    def ring(self, slots: frozenset[int] | None = None) -> None:
        """Say that something was staged, and where if that is known; the next pass comes at once."""
        self._told.append(slots)
        self._bell.set()

    @property
    def trouble(self) -> str:
        """The error it waits on, in words; empty while it is well."""
        return self._backoff.present_trouble

    def stop(self) -> None:
        """End after the pass under way, giving the slots back; returns when the thread has ended."""
        self._stopping.set()
        self._bell.set()
        thread = self._thread  # another thread may be stopping it too
        if thread is not None:
            thread.join()
            self._thread = None

    def _run(self) -> None:
        next_beat, next_look, joined = 0.0, 0.0, False
        while not self._stopping.is_set():
            try:
                if self._is_own and self._clock.monotonic() >= next_beat:
                    next_beat = self._clock.monotonic() + self._cluster.heartbeat_interval.total_seconds()
                    self._beat(joined)
                    joined = True
                told, asked = self._heard()
                looks = asked or not told or self._clock.monotonic() >= next_look
                done = self._sequencer.sequence(self._member.fence, None if looks else told)
                self._backoff.is_well()
            except Exception as exc:
                next_beat = next_look = 0.0
                self._told.append(None)  # a commit may be in doubt: look everywhere, and tell the groups
                self._stopping.wait(self._backoff.trouble(exc))
                continue
            if done.moved or asked:
                self._sequenced(done)
            if looks or done.moved:
                rung = bool(told) or asked
                pause = self._backoff.active(rung=rung) if done.moved else self._backoff.idle()
                look = 0.0 if done.full else self._clock.monotonic() + pause
                # A pass over named slots does not postpone the look at all: events in slots that nobody
                # named would have to wait until the named ones are quiet.
                next_look = look if looks else min(look, next_look)
            until = min(next_look, next_beat) if self._is_own else next_look
            self._bell.wait(max(until - self._clock.monotonic(), 0.0))
            self._bell.clear()
        if joined:
            self._leave()

    def _heard(self) -> tuple[set[int], bool]:
        """Return in which slots something was staged, and whether a look everywhere was asked for."""
        told, asked = set[int](), False
        while self._told:
            slots = self._told.popleft()
            told.update(slots or ())
            asked = asked or slots is None
        return told, asked

    def _beat(self, joined: bool) -> None:
        if joined:
            self._member.heartbeat()
        else:
            self._member.join()
        self._member.take()

    def _leave(self) -> None:
        try:
            self._member.leave()
        except Exception as exc:
            logger.warning(
                "could not give the slots back; others take them when the lease ends",
                exc_info=traced(exc),
                extra={"member": self._member.id, "error": words(exc)},
            )
