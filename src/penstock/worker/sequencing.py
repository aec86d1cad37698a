"""The sequencing service: a thread that moves the staged events in the slots of a member.

A thread that learns that something was staged may make a pass itself, if none is under way: that saves the
time until another thread wakes up. When the database is unavailable, the service waits with back-off, logs it
once, and goes on when the database is back.
"""

import logging
import math
from collections import deque
from collections.abc import Callable
from threading import Event, Lock, Thread

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock
from penstock.log.store import Store
from penstock.membership.member import ClusterSettings, Member
from penstock.outbox.sequencer import Pass, Sequencer, SequencerSettings
from penstock.redaction import traced, words

logger = logging.getLogger("penstock.sequencing")

_AT_ONCE = _LONG_AGO = -math.inf  # not 0: a clock may show less
# The pause between two looks while others publish fast and do not ring: the shorter one after a look that
# moved something, doubled after each look that did not, up to the longer; both are longer on a busy machine,
# where a look takes longer.
_FLOOD_PAUSE, _LONGEST_FLOOD_PAUSE = 0.001, 0.004
_PAUSE_OF_LOOK, _LONGEST_PAUSE_OF_LOOK = 0.5, 4


class SequencingService:
    """Runs a sequencer in a thread of its own. `start` and `stop` may be called twice.

    Without a member given, it is itself a member that takes every slot no living member owns. In a worker it
    gets the worker's member, which the membership loop keeps alive, and works on that member's slots.
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

        It also gets the records moved, if they take no more than `hand_over_bytes`. `is_told`: whether a bell
        rings for staged events.
        """
        self._cluster = cluster or ClusterSettings.load()
        self._member = member or Member(store.database, self._cluster, clock)
        self._is_own = member is None
        self._sequencer = Sequencer(
            store, sequencer or SequencerSettings.load(), clock, hand_over_bytes=hand_over_bytes
        )
        self._clock, self._sequenced = clock, sequenced
        self._told: deque[frozenset[int] | None] = deque()
        self._flood_until, self._flood_pause = _LONG_AGO, _FLOOD_PAUSE
        self._look_seconds = math.inf  # of the last look in a flood
        self._stopping, self._bell = Event(), Event()
        self._one_pass, self._next_beat, self._next_look = Lock(), _AT_ONCE, _AT_ONCE
        self._joined, self._sleeps_until = False, 0.0
        self._thread: Thread | None = None
        self._backoff = Backoff("sequencing", polling or PollingSettings.load(), is_told)

    def start(self) -> None:
        """Begin; returns at once."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = Thread(target=self._run, name="penstock-sequencer", daemon=True)
            self._thread.start()

    def ring(self, slots: frozenset[int] | None = None) -> None:
        """Report that something was staged, and where if that is known; the next pass comes at once."""
        self._told.append(slots)
        self._bell.set()

    def move(self, slots: frozenset[int] | None) -> None:
        """Report that something was staged, and move it in this thread; if that fails, the other tries."""
        self._told.append(slots)
        if self._one_pass.acquire(blocking=False):
            try:
                if not self._stopping.is_set():
                    self._pass()
            except Exception:
                self._told.append(None)  # a commit may be in doubt
            finally:
                self._one_pass.release()
            if not self._told and self._next_look >= self._sleeps_until:
                return
        self._bell.set()

    def flooded(self, seconds: float) -> None:
        """Report that events are staged for `seconds` without a ring for each: the service polls instead."""
        self._flood_until = max(self._flood_until, self._clock.monotonic() + seconds)
        self.ring()

    @property
    def trouble(self) -> str:
        """The error it waits on, in words; empty while it is well."""
        return self._backoff.present_trouble

    def stop(self) -> None:
        """End after the pass under way, and release the slots; returns when the thread has ended."""
        self._stopping.set()
        self._bell.set()
        thread = self._thread  # another thread may be stopping it too
        if thread is not None:
            thread.join()
            self._thread = None

    def _run(self) -> None:
        waited = False
        while not self._stopping.is_set():
            try:
                with self._one_pass:
                    if waited and self._next_look <= self._sleeps_until:
                        # No pass has postponed the look since, so it is due: a wait may end a little early,
                        # and a clock may stand still.
                        self._next_look = _AT_ONCE
                    self._sleeps_until = self._pass()
            except Exception as exc:
                self._next_beat = self._next_look = _AT_ONCE
                self._told.append(None)  # a commit may be in doubt: look everywhere, and tell the groups
                self._stopping.wait(self._backoff.trouble(exc))
                continue
            waited = not self._bell.wait(max(self._sleeps_until - self._clock.monotonic(), 0.0))
            self._bell.clear()
        if self._joined:
            self._leave()
            self._joined, self._next_beat = False, _AT_ONCE  # if it is started again, it joins at once

    def _pass(self) -> float:
        """Make a pass if one is due, or something was staged; return the time until which none is due."""
        if self._is_own and self._clock.monotonic() >= self._next_beat:
            self._next_beat = self._clock.monotonic() + self._cluster.heartbeat_interval.total_seconds()
            self._beat(self._joined)
            self._joined = True
        told, asked = self._heard()
        is_time = self._clock.monotonic() >= self._next_look
        if told or asked or is_time:
            self._sequence(told, asked=asked, looks=asked or is_time)
        return min(self._next_look, self._next_beat) if self._is_own else self._next_look

    def _sequence(self, told: set[int], *, asked: bool, looks: bool) -> None:
        began = self._clock.monotonic()
        expects = asked or began < self._flood_until
        done = self._sequencer.sequence(self._member.fence, None if looks else told, expects=expects)
        seconds = self._clock.monotonic() - began
        self._backoff.is_well()
        if done.moved or asked:
            self._sequenced(done)
        if looks or done.moved:
            rung = bool(told) or asked
            pause = self._backoff.active(rung=rung) if done.moved else self._backoff.idle()
            if self._clock.monotonic() < self._flood_until:
                pause = self._pause_in_flood(seconds, moved=bool(done.moved))
            look = _AT_ONCE if done.full else self._clock.monotonic() + pause
            # A pass over named slots never postpones the look: otherwise events in other slots would have to
            # wait until the named slots are quiet.
            self._next_look = look if looks else min(look, self._next_look)

    def _pause_in_flood(self, seconds: float, *, moved: bool) -> float:
        """Return the pause after a look of `seconds`; a single slow one among others does not count."""
        seconds, self._look_seconds = min(seconds, self._look_seconds), seconds
        if moved:
            self._flood_pause = max(_FLOOD_PAUSE, seconds * _PAUSE_OF_LOOK)
        else:
            longest = max(_LONGEST_FLOOD_PAUSE, seconds * _LONGEST_PAUSE_OF_LOOK)
            self._flood_pause = min(self._flood_pause * 2, longest)
        return self._flood_pause

    def _heard(self) -> tuple[set[int], bool]:
        """Return the slots where something was staged, and whether a look everywhere was requested."""
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
