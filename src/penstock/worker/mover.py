"""The mover: hears the bell, and moves the staged events in the slots of a member into the log.

Its thread waits for the bell no longer than until the next look is due, and with back-off for the database.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event, Thread

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock
from penstock.database.bell_listener import LOGGED, BellConnection, flood_seconds, is_test, notify_others, staged_slots
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


class Mover:
    """Runs a sequencer in a thread of its own, as the given member or as one that takes all free slots."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        cluster: ClusterSettings | None = None,
        sequencer: SequencerSettings | None = None,
        polling: PollingSettings | None = None,
        member: Member | None = None,
        bell: BellConnection | None = None,
        moved: Callable[[Pass], None] = lambda done: None,
        logged: Callable[[], object] = lambda: None,
        hand_over_bytes: int = 0,
    ) -> None:
        """`moved` is called after each pass that moved something, or that was asked for and did not.

        `logged`: when the bell says that another process has moved some. Without a bell it polls, and others `ring`.
        """
        self._cluster = cluster or ClusterSettings.load()
        self._member = member or Member(store.database, self._cluster, clock)
        self._is_own, self._database = member is None, store.database
        self._sequencer = Sequencer(
            store, sequencer or SequencerSettings.load(), clock, hand_over_bytes=hand_over_bytes
        )
        self._clock, self._bell, self._moved, self._logged = clock, bell, moved, logged
        self._staged: deque[frozenset[int] | None] = deque()
        self._flood_until, self._flood_pause = _LONG_AGO, _FLOOD_PAUSE
        self._look_seconds = math.inf  # of the last look in a flood
        self._stopping, self._rung = Event(), Event()
        self._next_beat, self._next_look = _AT_ONCE, _AT_ONCE
        self._joined = False
        self._thread: Thread | None = None
        polling = polling or PollingSettings.load()
        self._backoff = Backoff("sequencing", polling, self._hears)

    def start(self) -> None:
        """Begin; returns at once."""
        if self._thread is None:
            self._stopping.clear()
            if self._bell is not None:
                self._bell.start()
            self._thread = Thread(target=self._run, name="penstock-mover", daemon=True)
            self._thread.start()

    def ring(self, slots: frozenset[int] | None = None) -> None:
        """Report that something was staged, and where if that is known; the next pass comes at once."""
        self._staged.append(slots)
        self._wake()

    def flooded(self, seconds: float) -> None:
        """Report that events are staged for `seconds` without a ring for each: it polls instead."""
        self._note_flood(seconds)
        self._wake()

    @property
    def trouble(self) -> str:
        """The error it waits on, in words; empty while it is well."""
        return self._backoff.present_trouble

    def stop(self) -> None:
        """End after the pass under way, and release the slots; returns when the thread has ended."""
        self._stopping.set()
        self._wake()
        thread = self._thread  # another thread may be stopping it too
        if thread is not None:
            thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                until = self._pass()
            except Exception as exc:
                self._next_beat = self._next_look = _AT_ONCE
                self._staged.append(None)  # a commit may be in doubt: look everywhere, and tell the groups
                self._stopping.wait(self._backoff.trouble(exc))
                continue
            is_rung = self._wait(max(until - self._clock.monotonic(), 0.0))
            if not is_rung and self._next_look <= until:
                # The time is up: a wait may end a little early, and a clock may stand still.
                self._next_look = _AT_ONCE
        if self._bell is not None:
            self._bell.close()
        if self._joined:
            self._leave()
            self._joined, self._next_beat = False, _AT_ONCE  # if it is started again, it joins at once

    def _wait(self, seconds: float) -> bool:
        """Wait for the bell or a ring; return whether one of them came before the time was up."""
        if self._bell is None:
            is_rung = self._rung.wait(seconds)
        else:
            self._hear(words := self._bell.wait(seconds))
            is_rung = bool(words) or self._rung.is_set()
        self._rung.clear()  # before the pass, which takes what was staged until then
        return is_rung

    def _hear(self, words: Sequence[str]) -> None:
        for word in words:
            if word == LOGGED:
                self._logged()
            elif seconds := flood_seconds(word):
                self._note_flood(seconds)
            elif not is_test(word):
                self._staged.append(staged_slots(word))

    def _note_flood(self, seconds: float) -> None:
        self._flood_until = max(self._flood_until, self._clock.monotonic() + seconds)
        self._staged.append(None)

    def _hears(self) -> bool:
        return self._bell is not None and self._bell.hears

    def _wake(self) -> None:
        self._rung.set()
        if self._bell is not None:
            self._bell.wake()

    def _pass(self) -> float:
        """Make a pass if one is due, or something was staged; return the time until which none is due."""
        if self._is_own and self._clock.monotonic() >= self._next_beat:
            self._next_beat = self._clock.monotonic() + self._cluster.heartbeat_interval.total_seconds()
            self._beat(self._joined)
            self._joined = True
        slots, is_asked = self._take_staged()
        is_time = self._clock.monotonic() >= self._next_look
        if slots or is_asked or is_time:
            self._sequence(slots, is_asked=is_asked, looks=is_asked or is_time)
        return min(self._next_look, self._next_beat) if self._is_own else self._next_look

    def _sequence(self, slots: set[int], *, is_asked: bool, looks: bool) -> None:
        began = self._clock.monotonic()
        expects = is_asked or began < self._flood_until
        done = self._sequencer.sequence(self._member.fence, None if looks else slots, expects=expects)
        seconds = self._clock.monotonic() - began
        self._backoff.is_well()
        if done.moved or is_asked:
            self._moved(done)
        if done.moved and self._bell is not None and self._database.dialect.notifies and self._member.has_neighbours:
            notify_others(self._database, LOGGED)
        if looks or done.moved:
            rung = bool(slots) or is_asked
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

    def _take_staged(self) -> tuple[set[int], bool]:
        """Return the slots where something was staged, and whether a look everywhere was requested."""
        slots, is_asked = set[int](), False
        while self._staged:
            some = self._staged.popleft()
            slots.update(some or ())
            is_asked = is_asked or some is None
        return slots, is_asked

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
