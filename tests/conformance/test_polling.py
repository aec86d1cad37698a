"""Polling is only the safety net. Nobody rings here, and the next look would come after ten minutes."""

from threading import Event, Thread

import pytest

from penstock import Outbox, Record
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import subscribe

MANY = 6_000  # more than a worker reads in one look


def test_a_backlog_is_worked_off_without_a_second_look(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a worker that has just come: it looks once it has something to sequence."""
    monkeypatch.setenv("PENSTOCK_BELL_ENABLED", "false")
    monkeypatch.setenv("PENSTOCK_POLLING_TRIGGER", "fixed")
    for name in ("SHORTEST", "FIXED"):
        monkeypatch.setenv(f"PENSTOCK_POLLING_{name}_SECONDS", "600")
    outbox, done, seen = Outbox(engine.url), Event(), list[int]()

    def handle(record: Record) -> None:
        seen.append(record.value)

    subscribe(outbox, "g", handle)
    with outbox.transaction() as conn:
        outbox.publish_many(
            conn, ({"type": "t", "value": number, "key": f"k-{number % 2000}"} for number in range(MANY))
        )
    thread = Thread(target=outbox.run, kwargs={"until": done})
    thread.start()
    try:
        wait_until(lambda: len(seen) >= MANY, "all is handled")
    finally:
        done.set()
        thread.join()
        outbox.close()
    assert sorted(seen) == list(range(MANY))
