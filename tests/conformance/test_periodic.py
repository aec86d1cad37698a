"""Schedules on every kind of store: one event per tick, missed ticks, changed definitions, and operations."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread
from typing import Any

import pytest

from penstock import Outbox, Record, metrics
from penstock.clock import from_ms
from penstock.database.database import Database
from penstock.errors import InvalidSchedule, ScheduleInUse, SchedulePaused, UnknownSchedule
from penstock.membership.member import ClusterSettings
from penstock.membership.serving import Serves
from penstock.membership.sharing import SharingMember
from penstock.model.schedule import CatchUpWord
from penstock.operate import periodic
from penstock.operate.audit import audit
from penstock.operate.periodic import ScheduleState
from penstock.operate.store_doctor import examine_store
from penstock.outbox.periodic.rows import PeriodicSettings
from penstock.wire.kafka.headers import decode_headers
from penstock.worker.ticker import Ticker
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import subscribe

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


def ticks_seen(engine: StoreEngine) -> list[str]:
    """Return the ticks whose events are in the log, by time."""
    found = [dict(decode_headers(each.headers or b"")) for each in engine.entries()]
    return sorted((each["penstock-tick"] or b"").decode()[11:16] for each in found)


def pass_by(engine: StoreEngine, outbox: Outbox, *waits: timedelta) -> None:
    """Drain, so that schedules are declared, and again after each time."""
    outbox.drain()
    for each in waits:
        engine.clock.advance(each)
        outbox.drain()


def test_a_tick_is_one_event_with_its_moment_and_an_id_of_its_own(engine: StoreEngine) -> None:
    outbox, seen = engine.outbox, list[Record]()
    subscribe(outbox, "g", seen.append)

    @outbox.every("0 * * * *", type="report.due", timezone="Europe/Berlin", key="k", headers={"h": "1"})
    def report(tick: datetime) -> dict[str, str]:
        return {"at": f"{tick:%H:%M %Z}"}

    pass_by(engine, outbox, HOUR, MINUTE)
    (record,) = seen
    assert (record.type, record.key, record.value) == ("report.due", "k", {"at": "02:00 CET"})
    assert record.headers == {"h": "1", "penstock-schedule": "report.due", "penstock-tick": "2026-01-01T01:00:00.000Z"}
    assert record.id.startswith(f"{int(datetime(2026, 1, 1, 1, tzinfo=UTC).timestamp() * 1000):012x}"[:8])
    assert report(datetime(2026, 1, 1, tzinfo=UTC)) == {"at": "00:00 UTC"}, "the function is what it was"


def test_a_plain_schedule_publishes_the_same_value(engine: StoreEngine) -> None:
    outbox, seen = engine.outbox, list[Record]()
    subscribe(outbox, "g", seen.append)
    outbox.periodic("beat", timedelta(seconds=30), type="beat.due", value={"n": 1}, owner="anna")
    pass_by(engine, outbox, *[timedelta(seconds=30)] * 3)
    assert [each.value for each in seen] == [{"n": 1}] * 3
    assert len({each.id for each in seen}) == 3
    assert {each.owner for each in engine.entries()} == {"anna"}


def test_a_function_may_return_a_registered_event_or_nothing(engine: StoreEngine) -> None:
    outbox, seen = engine.outbox, list[Record]()
    subscribe(outbox, "g", seen.append)

    @outbox.event("sweep.due", key="name")
    @dataclass
    class Sweep:
        name: str

    answers: list[Sweep | None] = [Sweep("first"), None, Sweep("third")]

    @outbox.every(60, name="sweep")
    def sweep() -> Sweep | None:
        return answers.pop(0)

    pass_by(engine, outbox, MINUTE, MINUTE, MINUTE)
    assert [(each.type, each.key, str(each.headers["penstock-tick"])[11:16]) for each in seen] == [
        ("sweep.due", "first", "00:01"),
        ("sweep.due", "third", "00:03"),
    ]


@pytest.mark.parametrize(
    ("catch_up", "expected"), [("none", []), ("last", ["03:00"]), ("all", ["01:00", "02:00", "03:00"])]
)
def test_missed_ticks_are_caught_up_as_declared(
    engine: StoreEngine, catch_up: CatchUpWord, expected: list[str]
) -> None:
    engine.outbox.periodic("p", "0 * * * *", type="t", catch_up=catch_up)
    pass_by(engine, engine.outbox, 3 * HOUR + 10 * MINUTE)
    assert ticks_seen(engine) == expected
    pass_by(engine, engine.outbox, 50 * MINUTE)
    assert ticks_seen(engine) == [*expected, "04:00"]


def test_without_catching_up_a_tick_within_the_grace_is_published(engine: StoreEngine) -> None:
    engine.outbox.periodic("p", "0 * * * *", type="t", catch_up="none")
    pass_by(engine, engine.outbox, 2 * HOUR + MINUTE)
    assert ticks_seen(engine) == ["02:00"]


def test_all_is_bounded_and_the_newest_are_published(
    engine: StoreEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PENSTOCK_PERIODIC_MOST_MISSED", "3")
    engine.outbox.periodic("p", 60, type="t", catch_up="all")
    pass_by(engine, engine.outbox, 10 * MINUTE)
    assert ticks_seen(engine) == ["00:08", "00:09", "00:10"]
    assert "ticks were missed and are left out" in caplog.text


def test_of_workers_that_look_at_once_one_publishes_the_tick(engine: StoreEngine) -> None:
    outboxes = [engine.another() for _ in range(4)]
    calls, together = list[int](), Barrier(len(outboxes))

    def make() -> int:
        calls.append(1)
        together.wait()  # all have seen the tick before any has taken it
        return 1

    for outbox in outboxes:
        outbox.every(60, name="p", type="t")(make)
    tickers = [a_ticker(each) for each in outboxes]
    for each in tickers:
        assert each.look()[0] == []
    engine.clock.advance(MINUTE)
    due = [each.look()[0][0] for each in tickers]
    threads = [Thread(target=ticker.take, args=(each,)) for ticker, each in zip(tickers, due, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 4
    assert engine.count("staged") == 1


def test_a_tick_seen_before_its_schedule_was_changed_is_not_taken(engine: StoreEngine) -> None:
    outbox = engine.another()
    outbox.every(60, name="p", type="t")(lambda: 1)
    ticker = a_ticker(outbox)
    assert ticker.look()[0] == []
    engine.clock.advance(MINUTE)
    (due,), _ = ticker.look()
    with engine.connect() as conn:
        conn.execute("UPDATE penstock_periodic SET version = version + 1")  # and perhaps the same time for the next
        conn.commit()
    ticker.take(due)
    assert engine.count("staged") == 0


def a_ticker(outbox: Outbox) -> Ticker:
    return Ticker(outbox.database, outbox._tick_source(), outbox._clock, PeriodicSettings.load())


def test_a_function_that_fails_is_told_and_tried_again_and_stops_no_other(
    engine: StoreEngine, database: Database
) -> None:
    outbox, broken = engine.outbox, [True]

    @outbox.every(60, name="a", type="t")
    def make() -> int:
        if broken:
            raise ValueError("no such report")
        return 1

    outbox.periodic("b", 60, type="t")
    pass_by(engine, outbox, MINUTE)
    assert ticks_seen(engine) == ["00:01"]
    shown = periodic.show(database, "a", clock=engine.clock)
    assert (shown.state, shown.failures, shown.error) == (ScheduleState.FAILING, 1, "ValueError: no such report")
    found = {each.part: each.found for each in examine_store(database, engine.clock)}
    assert "no such report" in found["Schedule a"]
    assert metrics.TICKS.values()["a", "failed"] >= 1
    outbox.drain()
    assert periodic.show(database, "a", clock=engine.clock).failures == 2
    broken.clear()
    outbox.drain()
    shown = periodic.show(database, "a", clock=engine.clock)
    assert (shown.state, shown.failures, shown.error) == (ScheduleState.TICKING, 0, None)
    assert ticks_seen(engine) == ["00:01", "00:01"]


def test_what_publish_would_refuse_fails_the_tick(engine: StoreEngine, database: Database) -> None:
    engine.outbox.every(60, type="t")(lambda: object())
    pass_by(engine, engine.outbox, MINUTE)
    assert "InvalidValue" in str(periodic.show(database, "t", clock=engine.clock).error)


def test_a_rollback_takes_the_tick_back_with_its_event(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.outbox.periodic("p", 60, type="t")
    ticker = a_ticker(engine.outbox)
    ticker.look()
    engine.clock.advance(MINUTE)
    (due,) = ticker.look()[0]

    def fail(point: str) -> None:
        raise RuntimeError("lost")

    with monkeypatch.context() as patched:
        patched.setattr("penstock.worker.ticker.points.reach", fail)
        with pytest.raises(RuntimeError):
            ticker.take(due)
    assert engine.count("staged") == 0
    engine.outbox.drain()
    assert ticks_seen(engine) == ["00:01"]


# -- another definition


def living(engine: StoreEngine, outbox: Outbox) -> SharingMember:
    """Let a worker with the schedules of an outbox be at work, as others see it."""
    member = SharingMember(outbox.database, ClusterSettings.load(), engine.clock)
    member.serve(Serves(schedules=outbox._schedules.fingerprints()))
    member.join()
    return member


def test_of_two_definitions_the_later_counts_whoever_is_started_again(
    engine: StoreEngine, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """A rolling deploy: the old worker goes on beside the new one, and another old one is started."""
    old, new, again = engine.another(), engine.another(), engine.another()
    for outbox, every in ((old, "0 * * * *"), (new, "30 * * * *"), (again, "0 * * * *")):
        outbox.periodic("p", every, type="t")
    old_member = living(engine, old)
    old_ticker = a_ticker(old)
    old_ticker.look()
    new_member, new_ticker = living(engine, new), a_ticker(new)
    new_ticker.look()
    again_ticker = a_ticker(again)
    for _ in range(6):
        engine.clock.advance(30 * MINUTE)
        for each in (old_member, new_member):
            each.heartbeat()
        for ticker in (old_ticker, again_ticker, new_ticker):
            for due in ticker.look()[0]:
                ticker.take(due)
    engine.outbox.drain()
    assert ticks_seen(engine) == ["00:30", "01:30", "02:30"]
    shown = periodic.show(database, "p", clock=engine.clock)
    assert (shown.version, shown.workers, shown.others) == (2, 1, 1)
    assert caplog.text.count("a worker that was started later declares it in another way") == 2
    new_member.leave()  # the deploy is taken back
    engine.clock.advance(10 * MINUTE)
    assert old_ticker.look()[0] == []
    engine.clock.advance(50 * MINUTE)
    for due in old_ticker.look()[0]:
        old_ticker.take(due)
    engine.outbox.drain()
    assert ticks_seen(engine) == ["00:30", "01:30", "02:30", "04:00"]
    assert periodic.show(database, "p", clock=engine.clock).version == 3


def test_a_changed_schedule_repeats_no_tick_and_makes_up_none_of_its_past(engine: StoreEngine) -> None:
    old, new = engine.another(), engine.another()
    old.periodic("p", "0 * * * *", type="t", catch_up="all")
    new.periodic("p", "*/10 * * * *", type="t", catch_up="all")
    pass_by(engine, old, HOUR)
    pass_by(engine, new, 25 * MINUTE)
    assert ticks_seen(engine) == ["01:00", "01:10", "01:20"]


def test_a_tick_that_was_due_before_the_change_is_still_published(engine: StoreEngine) -> None:
    old, new = engine.another(), engine.another()
    old.periodic("p", "0 * * * *", type="t")
    new.periodic("p", "30 * * * *", type="t")
    old.drain()
    engine.clock.advance(HOUR + MINUTE)
    new.drain()
    new.drain()
    assert ticks_seen(engine) == ["01:00"]
    pass_by(engine, new, 30 * MINUTE)
    assert ticks_seen(engine) == ["01:00", "01:30"]


def test_a_clock_that_was_set_back_repeats_no_tick(engine: StoreEngine) -> None:
    """The database's, which decides: schedules wait until it has caught up."""
    engine.outbox.periodic("p", "0 * * * *", type="t", catch_up="all")
    pass_by(engine, engine.outbox, HOUR, HOUR)
    engine.clock._now_ms -= int(HOUR.total_seconds() * 1000)
    pass_by(engine, engine.outbox, 30 * MINUTE, 30 * MINUTE, HOUR)
    assert ticks_seen(engine) == ["01:00", "02:00", "03:00"]


# -- operations


def test_schedules_are_listed_shown_and_paged(engine: StoreEngine, database: Database) -> None:
    engine.outbox.periodic("a", "0 * * * *", type="t", timezone="America/New_York")
    engine.outbox.periodic("b", 90, type="u", topic="other", catch_up="all")
    pass_by(engine, engine.outbox, HOUR)
    first = periodic.schedules(database, limit=1, clock=engine.clock)
    rest = periodic.schedules(database, limit=1, after=first.after, clock=engine.clock)
    one, other = *first.items, *rest.items
    assert rest.after is None
    assert (one.name, one.when, one.state, one.catch_up, one.topic) == (
        "a",
        "0 * * * * America/New_York",
        "ticking",
        "last",
        "events",
    )
    now = from_ms(engine.clock.now_ms())
    assert (one.last_at, one.next_at, one.version) == (now, now + HOUR, 1)
    assert (other.name, other.when, other.type, other.topic) == ("b", "every 90 s", "u", "other")
    assert periodic.upcoming(database, "a", count=2, clock=engine.clock) == [now + HOUR, now + 2 * HOUR]
    with pytest.raises(UnknownSchedule, match="'c'"):
        periodic.show(database, "c")
    with pytest.raises(UnknownSchedule):
        periodic.upcoming(database, "c\0")


def test_a_paused_schedule_does_not_tick_and_makes_nothing_up(engine: StoreEngine, database: Database) -> None:
    said: dict[str, Any] = {"clock": engine.clock, "actor": "anna"}
    engine.outbox.periodic("p", "0 * * * *", type="t", catch_up="all")
    pass_by(engine, engine.outbox, HOUR)
    assert periodic.pause(database, "p", **said)
    assert not periodic.pause(database, "p", **said)
    pass_by(engine, engine.outbox, 3 * HOUR)
    shown = periodic.show(database, "p", clock=engine.clock)
    assert (shown.state, shown.next_at) == ("paused", None)
    with pytest.raises(SchedulePaused):
        periodic.run_now(database, "p", **said)
    assert periodic.resume(database, "p", **said)
    assert not periodic.resume(database, "p", **said)
    pass_by(engine, engine.outbox, HOUR)
    assert ticks_seen(engine) == ["01:00", "05:00"]
    assert [(each.action, each.actor, each.subject) for each in audit(database).items] == [
        ("periodic resume", "anna", {"schedule": "p"}),
        ("periodic pause", "anna", {"schedule": "p"}),
    ]


def test_running_now_is_one_more_tick(engine: StoreEngine, database: Database) -> None:
    engine.outbox.periodic("p", "0 * * * *", type="t", catch_up="all")
    pass_by(engine, engine.outbox, 20 * MINUTE)
    for _ in range(2):
        periodic.run_now(database, "p", clock=engine.clock)
    pass_by(engine, engine.outbox, 40 * MINUTE)
    assert ticks_seen(engine) == ["00:20", "01:00"]
    for act in (periodic.run_now, periodic.pause, periodic.resume, periodic.remove):
        with pytest.raises(UnknownSchedule):
            act(database, "q")


def test_a_schedule_is_removed_once_no_worker_declares_it(engine: StoreEngine, database: Database) -> None:
    engine.outbox.periodic("p", 60, type="t")
    engine.outbox.drain()
    member = living(engine, engine.outbox)
    with pytest.raises(ScheduleInUse, match="1 running worker"):
        periodic.remove(database, "p", clock=engine.clock)
    member.leave()
    engine.clock.advance(HOUR)
    assert periodic.show(database, "p", clock=engine.clock).state is ScheduleState.LATE
    assert any(each.part == "Schedule p" for each in examine_store(database, engine.clock))
    periodic.remove(database, "p", clock=engine.clock)
    assert periodic.schedules(database).items == []
    assert [each.action for each in audit(database).items] == ["periodic remove"]


# -- what is declared


def test_what_cannot_work_is_refused_when_it_is_declared(engine: StoreEngine) -> None:
    outbox = engine.outbox
    outbox.periodic("p", 60, type="t")
    with pytest.raises(InvalidSchedule, match="declared twice"):
        outbox.periodic("p", 60, type="t")
    with pytest.raises(InvalidSchedule, match="needs a name"):
        outbox.every(60)(lambda: 1)
    with pytest.raises(InvalidSchedule, match="need a type"):
        outbox.every(60, name="q", key="k")(lambda: 1)
    with pytest.raises(InvalidSchedule, match="need a type"):
        outbox.every(60, name="q", topic="other")(lambda: 1)
    with pytest.raises(InvalidSchedule, match="must take nothing, or the moment"):
        outbox.every(60, name="q", type="t")(lambda a, b: 1)

    async def later() -> int:
        return 1

    with pytest.raises(InvalidSchedule, match="is async"):
        outbox.every(60, name="q", type="t")(later)
    assert [each.name for each in outbox._schedules] == ["p"]


def test_a_schedule_far_away_costs_one_statement_a_look(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.outbox.periodic("p", "0 0 1 1 *", type="t")
    ticker = a_ticker(engine.outbox)
    ticker.look()
    asked = list[str]()
    execute = type(engine.outbox.database.dialect).execute
    monkeypatch.setattr(
        type(engine.outbox.database.dialect),
        "execute",
        lambda self, conn, sql, params: asked.append(sql) or execute(self, conn, sql, params),  # type: ignore[func-returns-value]
    )
    due, pause = ticker.look()
    assert (due, pause, len(asked)) == ([], 5.0, 1)
    engine.clock.advance(timedelta(days=364, hours=23, minutes=59, seconds=58))
    due, pause = ticker.look()
    assert (due, pause) == ([], 2.0), "the next look comes when it is due"


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
