"""The ticking service in a running worker: precision, functions that hang or fail, what an idle one costs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
import pytest

from penstock import Outbox, Record, metrics
from penstock.clock import SYSTEM, from_ms
from penstock.database.sqlite.dialect import SqliteDialect
from penstock.operate import periodic
from penstock.worker.ticker import TickingService
from tests.crash.clocks import ShiftedClock
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import subscribe


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    """Give an outbox with its tables made."""
    made = Outbox(f"sqlite:///{tmp_path}/shop.db")
    made.migrate()
    yield made
    made.close()


@contextmanager
def running(*outboxes: Outbox) -> Iterator[None]:
    """Run a worker for each while a block lasts."""
    done = Event()
    threads = [Thread(target=each.run, kwargs={"until": done}) for each in outboxes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def seen_by(outbox: Outbox) -> list[Record]:
    seen = list[Record]()
    subscribe(outbox, "g", seen.append)
    return seen


def test_ticks_come_once_whatever_clocks_say_and_whichever_function_hangs(tmp_path: Path, outbox: Outbox) -> None:
    """Two more workers, one an hour ahead and one behind: the database's clock decides."""
    seen, hangs = seen_by(outbox), Event()
    outbox.every(1, name="hung", type="hung")(lambda: hangs.wait() and 1)
    outbox.every(1, name="broken", type="broken")(_fail)
    ahead, behind = (
        Outbox(f"sqlite:///{tmp_path}/shop.db", clock=ShiftedClock(timedelta(hours=hours))) for hours in (1, -1)
    )
    for each in (outbox, ahead, behind):
        each.periodic("beat", 1, type="beat", key="k", catch_up="all")
    with running(outbox, ahead, behind):
        wait_until(lambda: len(seen) >= 2, "two ticks have come")
        wait_until(lambda: periodic.show(outbox, "broken").failures, "the broken one was tried")
        now, shown = from_ms(SYSTEM.now_ms()), {each.name: each for each in periodic.schedules(outbox).items}
        hangs.set()
    moments = [datetime.fromisoformat(str(each.headers["penstock-tick"])) for each in seen if each.key == "k"]
    assert moments == [moments[0] + timedelta(seconds=number) for number in range(len(moments))]
    assert now - timedelta(minutes=2) < moments[0] <= moments[1] <= now
    assert shown["broken"].error == "LookupError: no report"
    assert (shown["beat"].workers, shown["beat"].others) == (3, 0)
    for each in (ahead, behind):
        each.close()


def _fail() -> int:
    raise LookupError("no report")


@pytest.mark.parametrize(
    ("how", "error"), [("redacted", msgspec.ValidationError("secret")), ("type", LookupError("secret"))]
)
def test_what_an_error_may_not_say_is_neither_logged_nor_stored(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str, error: Exception
) -> None:
    monkeypatch.setenv("PENSTOCK_PROCESSING_ERROR_TEXT", how)

    @outbox.every("0 0 1 1 *", name="report", type="t")
    def make() -> int:
        raise error

    outbox.drain()
    periodic.run_now(outbox, "report")
    outbox.drain()
    assert periodic.show(outbox, "report").error == type(error).__name__
    (line,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert (line.__dict__["schedule"], line.__dict__["error"]) == ("report", type(error).__name__)
    assert "Traceback" in caplog.text
    assert "secret" not in caplog.text


def test_ticks_are_counted_from_nought(outbox: Outbox) -> None:
    outbox.periodic("counted", "0 0 1 1 *", type="t")
    outbox.drain()
    counts = {labels[1]: value for labels, value in metrics.TICKS.values().items() if labels[0] == "counted"}
    assert counts == {"published": 0, "none": 0, "failed": 0}


def test_who_drains_can_interrupt_a_function(outbox: Outbox) -> None:
    @outbox.every("0 0 1 1 *", name="report", type="t")
    def make() -> int:
        raise KeyboardInterrupt

    outbox.drain()
    periodic.run_now(outbox, "report")
    with pytest.raises(KeyboardInterrupt):
        outbox.drain()


def test_running_now_is_heard_of_without_a_tick(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PERIODIC_LOOK_INTERVAL", "0.05")
    seen = seen_by(outbox)
    outbox.periodic("yearly", "0 0 1 1 *", type="t")
    with running(outbox):
        wait_until(lambda: periodic.schedules(outbox).items, "it is declared")
        periodic.run_now(outbox, "yearly")
        wait_until(lambda: seen, "it has come")


def test_a_schedule_far_away_adds_one_statement_in_five_seconds(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()
    execute: Callable[..., Any] = SqliteDialect.execute

    def counted(self: SqliteDialect, conn: Any, sql: str, params: Any) -> Any:
        if "penstock_periodic" in sql:
            asked.append(sql)
        return execute(self, conn, sql, params)

    monkeypatch.setattr(SqliteDialect, "execute", counted)
    seen = seen_by(outbox)
    outbox.periodic("yearly", "0 0 1 1 *", type="t")
    with running(outbox):
        wait_until(lambda: len(asked) >= 4, "it is declared")
        with outbox.transaction() as conn:
            outbox.publish(conn, "t", 1)
        wait_until(lambda: seen, "the worker is at work")
        count = len(asked)
    assert count <= 6, "two looks, and one transaction that declares it"


def test_without_schedules_no_thread_is_started(outbox: Outbox) -> None:
    worker = outbox._worker(None, dedicated=False)
    assert worker._ticking is not None
    worker._ticking.start()
    assert worker._ticking._thread is None
    worker._ticking.stop()


def test_a_stop_that_comes_between_two_turns_is_not_slept_through(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PERIODIC_LOOK_INTERVAL", "3600")
    outbox.periodic("yearly", "0 0 1 1 *", type="t")
    ready = Event()
    ready.set()
    service = TickingService(outbox.database, outbox._tick_source(), SYSTEM, ready=ready)

    class StopComesThen(Event):
        """Says what holds; when that is that nothing stops, the stop comes before the next step."""

        def is_set(self) -> bool:
            held = super().is_set()
            self.set()
            service._wake.set()
            return held

    service._stopping = StopComesThen()
    service.start()
    thread = service._thread
    assert thread is not None
    thread.join(5)
    is_over = not thread.is_alive()
    service.stop()
    assert is_over
