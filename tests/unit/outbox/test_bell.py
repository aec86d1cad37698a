"""The bell: rings once a transaction that staged something has ended, and never asks the database."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from threading import Event, current_thread

import pytest

from penstock.clock import SYSTEM
from penstock.outbox import bell as bell_module
from penstock.outbox.bell import MOST_SLOTS, UNKNOWN_SLOTS, Bell, WakeUp
from tests.crash.waiting import wait_until


class Conn:
    """A connection whose transaction ends when the test says so."""

    def __init__(self) -> None:
        self.open, self.looks = True, 0


class Broken(Conn):
    """One that was closed: asking it raises."""

    @property
    def broken(self) -> bool:
        raise RuntimeError("the connection is closed")


def is_open(conn: Conn) -> bool:
    conn.looks += 1
    return conn.open


class Rings(list[int]):
    """Counts how often the bell rang, and in which threads."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()
        self.slots: list[frozenset[int] | None] = []

    def __call__(self, slots: frozenset[int] | None) -> None:
        self.append(1)
        self.slots.append(slots)
        self.threads.add(current_thread().name)


@pytest.fixture
def rings() -> Rings:
    return Rings()


@pytest.fixture
def bell(rings: Rings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bell]:
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, given_up_after=600.0))  # the test may be held up
    made = Bell(rings)
    yield made
    made.close()


def test_it_rings_once_when_the_transaction_has_ended(bell: Bell, rings: Rings) -> None:
    conn = Conn()
    bell.watch(conn, is_open)
    wait_until(lambda: conn.looks > 3, "it looks")
    assert rings == []
    conn.open = False
    wait_until(lambda: rings, "it rings")
    looks = conn.looks
    Event().wait(0.02)
    assert (len(rings), conn.looks) == (1, looks)


def test_what_a_library_is_to_tell_of_is_looked_at_when_it_does(
    bell: Bell, rings: Rings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, hooked_pause=600.0))
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, longest_pause=600.0))
    conn = Conn()
    bell.watch(conn, is_open, hooked=True)
    Event().wait(0.02)
    looks = conn.looks  # as its thread began
    Event().wait(0.02)
    assert conn.looks == looks
    bell.look()  # a savepoint perhaps: it is still open
    wait_until(lambda: conn.looks == looks + 1, "it looks")
    assert rings == []
    conn.open = False
    bell.look()
    wait_until(lambda: len(rings) == 1, "it rings")


def test_of_a_rollback_nobody_tells_and_it_rings_all_the_same(bell: Bell, rings: Rings) -> None:
    conn = Conn()
    bell.watch(conn, is_open, hooked=True)
    conn.open = False
    wait_until(lambda: len(rings) == 1, "it rings")


def test_of_transactions_that_end_together_none_is_missed(bell: Bell, rings: Rings) -> None:
    conns = [Conn() for _ in range(5)]
    for conn in conns:
        bell.watch(conn, is_open)
    for conn in conns:
        conn.open = False
    wait_until(lambda: rings, "it rings")
    late = Conn()
    bell.watch(late, is_open)
    before = len(rings)
    late.open = False
    wait_until(lambda: len(rings) > before, "it rings for the late one, too")


def test_a_connection_that_is_gone_or_broken_rings(bell: Bell, rings: Rings) -> None:
    conn = Conn()
    bell.watch(conn, is_open)
    del conn
    gc.collect()
    wait_until(lambda: len(rings) == 1, "it rings for the one that is gone")
    broken = Broken()
    bell.watch(broken, lambda conn: bool(conn.broken))
    wait_until(lambda: len(rings) == 2, "it rings for the broken one")


def test_a_connection_busy_with_the_next_transaction_is_not_forgotten(
    bell: Bell, rings: Rings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It published again: in between it may have committed, unseen."""
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, used_again_after=0.0))
    conn = Conn()
    bell.watch(conn, is_open)
    Event().wait(0.001)
    bell.watch(conn, is_open)
    wait_until(lambda: rings, "it rings")
    assert rings.threads == {"penstock-bell"}  # never in the caller's, which may be an event loop's


def test_a_transaction_that_stays_open_is_given_up(bell: Bell, rings: Rings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polling will find what it publishes; the bell does not look forever."""
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, given_up_after=0.01))
    conn = Conn()
    bell.watch(conn, is_open)
    wait_until(lambda: rings, "it gives up, with a last ring")
    looks = conn.looks
    Event().wait(0.02)
    assert conn.looks == looks


def test_it_works_again_in_a_forked_process(bell: Bell, rings: Rings) -> None:
    first = Conn()
    bell.watch(first, is_open)
    first.open = False
    wait_until(lambda: rings, "it rings in the parent")
    pid = os.fork()
    if pid == 0:
        conn = Conn()
        bell.watch(conn, is_open)
        conn.open = False
        for _ in range(6000):
            if len(rings) > 1:
                os._exit(0)
            Event().wait(0.01)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_it_says_in_which_slots_something_was_staged(bell: Bell, rings: Rings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, used_again_after=600.0))
    conn = Conn()
    bell.watch(conn, is_open, [7])
    bell.watch(conn, is_open, [9, 7])
    conn.open = False
    wait_until(lambda: rings, "it rings")
    assert rings.slots == [frozenset({7, 9})]


@pytest.mark.parametrize("slots", [UNKNOWN_SLOTS, range(MOST_SLOTS + 1)], ids=["unknown", "many"])
def test_slots_that_are_many_or_not_known_are_not_said(bell: Bell, rings: Rings, slots: Iterable[int]) -> None:
    conns = Conn(), Conn()
    bell.watch(conns[0], is_open, [7])
    bell.watch(conns[1], is_open, slots)
    for conn in conns:
        conn.open = False
    wait_until(lambda: None in rings.slots, "it rings")
    assert None in rings.slots


def test_the_slots_of_a_transaction_that_has_passed_unseen_are_said(
    bell: Bell, rings: Rings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, used_again_after=0.0))
    conn = Conn()
    bell.watch(conn, is_open, [7])
    Event().wait(0.001)
    bell.watch(conn, is_open, [8])
    wait_until(lambda: rings, "it rings for the first")
    conn.open = False
    wait_until(lambda: frozenset({8}) in rings.slots, "it rings for the second")
    assert set(rings.slots) == {frozenset({7}), frozenset({8})}


def test_a_connection_with_the_id_of_one_that_is_gone_is_watched(
    bell: Bell, rings: Rings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell_module, "id", lambda conn: 1, raising=False)
    gone, conn = Conn(), Conn()
    bell.watch(gone, is_open, [7])
    bell.watch(conn, is_open, [8])
    wait_until(lambda: frozenset({7}) in rings.slots, "it rings for the one that is gone")
    conn.open = False
    wait_until(lambda: frozenset({8}) in rings.slots, "it rings for the other")


@pytest.mark.parametrize("again_seconds", [0.0, 600.0])
def test_a_connection_that_publishes_again_while_the_bell_looks_at_it_is_not_lost(
    bell: Bell, rings: Rings, monkeypatch: pytest.MonkeyPatch, again_seconds: float
) -> None:
    """Its first transaction has ended, and the second begins before the bell lets go of the first."""
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, used_again_after=again_seconds))
    conn, second = Conn(), Event()

    def ends_and_begins(conn: Conn) -> bool:
        if second.is_set():
            return conn.open
        second.set()
        Event().wait(0.001)
        bell.watch(conn, ends_and_begins, [8])
        return False

    bell.watch(conn, ends_and_begins, [7])
    wait_until(lambda: rings, "it rings for the first")
    conn.open = False
    wait_until(lambda: frozenset({8}) in rings.slots, "it rings for the second")


@pytest.mark.parametrize(("publishes", "seconds"), [(1, 0.002), (2, 0.002), (5, 0.005), (100, 0.02)])
def test_the_more_is_published_the_longer_it_gathers(publishes: int, seconds: float, rings: Rings) -> None:
    bell = Bell(rings)
    bell.close()  # no thread: this test is its thread
    for _ in range(publishes):
        bell.watch(Conn(), is_open)
    assert bell._resting_seconds() == seconds
    assert bell._resting_seconds() == 0.002  # counted anew


# --- floods --------------------------------------------------------------------------------------


class Floods(list[float]):
    """For how long each word said that events come."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def floods() -> Floods:
    return Floods()


@pytest.fixture
def flooded(rings: Rings, floods: Floods, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bell]:
    """Give a bell that takes whatever is published for a flood, and goes on until nothing is."""
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, measured_over=0.0))
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, least_flood_rate=1e-9))
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, most_flood_rate=1e-9))
    made = Bell(rings, floods)
    yield made
    made.close()


def test_in_a_flood_it_looks_at_nothing_and_says_for_how_long(flooded: Bell, rings: Rings, floods: Floods) -> None:
    first, conn = Conn(), Conn()
    flooded.watch(first, is_open)
    first.open = False
    wait_until(lambda: floods, "it says that events come")
    flooded.watch(conn, is_open)
    looks, said, rung = conn.looks, len(floods), len(rings)
    for _ in range(3):
        said = len(floods)
        flooded.watch(conn, is_open)
        wait_until(lambda said=said: len(floods) > said, "it says so again")  # type: ignore[misc]
    assert (conn.looks, len(rings)) == (looks, rung)
    assert all(seconds > bell_module.PACE.first_flood_rest for seconds in floods)


def test_after_a_flood_it_rings_for_the_last_and_watches_what_is_open(
    flooded: Bell, rings: Rings, floods: Floods
) -> None:
    first, conn = Conn(), Conn()
    flooded.watch(first, is_open)
    first.open = False
    wait_until(lambda: floods, "the flood begins")
    flooded.watch(conn, is_open)
    rung = len(rings)
    wait_until(lambda: len(rings) > rung, "it rings when the flood is over")
    assert rings.slots[-1] is None
    rung = len(rings)
    conn.open = False
    wait_until(lambda: len(rings) > rung, "it rings for the one that was open")


def test_a_trickle_is_no_flood(rings: Rings, floods: Floods) -> None:
    bell = Bell(rings, floods)
    for count in range(3):
        conn = Conn()
        bell.watch(conn, is_open)
        conn.open = False
        wait_until(lambda count=count: len(rings) > count, "it rings")  # type: ignore[misc]
    bell.close()
    assert floods == []


@pytest.mark.parametrize(("ring_seconds", "rate"), [(0.0, 200), (0.0015, 200), (0.003, 100), (0.01, 30), (0.1, 20)])
def test_where_a_ring_takes_long_a_flood_begins_early(
    ring_seconds: float, rate: float, rings: Rings, floods: Floods
) -> None:
    bell = Bell(rings, floods)
    bell._ring_seconds = ring_seconds
    assert bell._flood_rate() == pytest.approx(rate)


def is_at_rest(bell: Bell) -> bool:
    """Return whether it has rung for all; else it would ring for the next together with what is left."""
    return bell._asleep and not bell._watched and not bell._again


def test_a_bell_nobody_tells_of_floods_rings_on(rings: Rings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listeners are called when it rings: they cannot look by themselves."""
    monkeypatch.setattr(bell_module, "PACE", replace(bell_module.PACE, measured_over=0.0))
    bell = Bell(rings)
    for _ in range(1000):
        bell.watch(Conn(), is_open)
    wait_until(lambda: rings and is_at_rest(bell), "it has rung for all those that are gone")
    conn = Conn()
    bell.watch(conn, is_open, [8])
    conn.open = False
    wait_until(lambda: frozenset({8}) in rings.slots, "and for the next")
    bell.close()


def test_a_process_forked_in_a_flood_has_a_bell_of_its_own(flooded: Bell, rings: Rings, floods: Floods) -> None:
    conn = Conn()
    flooded.watch(conn, is_open)
    conn.open = False
    wait_until(lambda: floods, "the flood begins")
    flooded.watch(conn, is_open)
    pid = os.fork()
    if pid == 0:
        rings.clear()
        flooded.watch(conn, is_open)
        for _ in range(6000):
            if rings:
                os._exit(0)
            Event().wait(0.01)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_older_a_transaction_the_less_often_it_is_looked_at(rings: Rings) -> None:
    bell, conn = Bell(rings), Conn()
    bell.close()  # no thread: this test is its thread
    bell._asleep = False
    bell.watch(conn, is_open)
    pauses = []
    for age in (0.0, 0.01, 0.1, 1.0):
        [(key, (reference, asked, _, slots, told))] = bell._watched.items()
        bell._watched[key] = (reference, asked, SYSTEM.monotonic() - age, slots, told)
        pauses.append(bell._look())
    assert pauses[0] == 0.0002
    assert pauses[1:] == pytest.approx([0.002, 0.02, 0.1], rel=0.5)


def test_the_first_look_comes_when_transactions_usually_end(rings: Rings) -> None:
    """A short one is believed at once: what is late delays an event, what is early costs a look."""
    bell = Bell(rings)
    for _ in range(100):
        bell._note_age(0.010)
    assert bell._usual_seconds == pytest.approx(0.010, rel=0.01)
    for _ in range(5):
        bell._note_age(0.001)
    assert bell._usual_seconds < 0.0015


@pytest.mark.parametrize(("share", "words"), [(0.6, 1), (0.9, 5)])
def test_a_flood_ends_when_what_comes_is_none(share: float, words: int) -> None:
    """A stream of half as much, or a little more, is no flood: it was one because of a burst."""
    said = list[float]()
    bell = Bell(lambda slots: None, said.append)

    class Rest(WakeUp):
        def wait(self, seconds: float = -1) -> None:
            bell._published = round(seconds * bell._flood_rate() * share)
            bell._closed = len(said) == 5

    bell._rest = Rest()
    bell._flow()
    assert len(said) == words
