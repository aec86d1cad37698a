"""What the sequencer of a process has moved reaches its groups without being read."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Outbox
from penstock.clock import SYSTEM
from penstock.log.entry import Entry
from penstock.log.sql.log import SqlLog
from penstock.worker import known_log
from penstock.worker.known_log import MovedRecords
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, subscribe
from tests.working import working


def entry(offset: int, value: bytes = b"") -> tuple[int, Entry]:
    return 1, Entry(0, offset, "id", None, "t", value, None, 0)


def test_what_was_put_is_fetched_once_and_in_order() -> None:
    moved = MovedRecords()
    assert moved.fetch() == []
    moved.put([entry(0), entry(1)])
    moved.put([entry(2)])
    assert moved.fetch() == [entry(0), entry(1), entry(2)]
    assert moved.fetch() == []


def test_what_nobody_fetches_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_log, "_WAITING_BYTES", 1000)
    moved = MovedRecords()
    for offset in range(10):
        moved.put([entry(offset, b"x" * 100)])
    kept = moved.fetch()
    assert kept == [entry(offset, b"x" * 100) for offset in range(len(kept))]
    assert 0 < len(kept) < 10
    moved.put([entry(11)])
    assert moved.fetch() == [entry(11)]


def test_what_waits_is_thrown_away_when_partitions_change_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may change hands because records were erased: none may be served as it was before."""
    outbox = Outbox("memory://")
    outbox.migrate()
    loop = outbox._worker(None, dedicated=False)._delivery
    topic = outbox.log.create_topic("events")
    loop._cache.expect(topic)
    loop.grown({}, [(topic.id, entry(0, b"erased since")[1])])
    monkeypatch.setattr(loop._groups, "exchange", loop._cache.clear)  # as it does for a group that is seen to
    loop._turn._make(loop.own(timed=False))
    assert loop._cache._rows == {}
    assert loop._moved.fetch() == []
    outbox.close()


@pytest.mark.usefixtures("brisk")
class TestInAWorker:
    """On PostgreSQL, where the move says what it moved."""

    @pytest.fixture(params=["postgres"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def outbox(self, engine: StoreEngine) -> Outbox:
        return engine.another(SYSTEM)

    @pytest.fixture
    def reads(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """Give what is read of the log from here on."""
        found: list[Any] = []
        read = SqlLog.read_ranges

        def noted(self: SqlLog, topic: Any, ranges: Any, **options: Any) -> Any:
            found.extend(ranges)
            return read(self, topic, ranges, **options)

        monkeypatch.setattr(SqlLog, "read_ranges", noted)
        return found

    def test_groups_at_the_end_of_the_log_read_nothing(self, outbox: Outbox, reads: list[Any]) -> None:
        seen, others = Seen(), Seen()
        subscribe(outbox, "g", seen)
        subscribe(outbox, "h", others, id="h")
        with working(outbox):
            _publish(outbox, 1)  # makes the topic, which a trip does not
            wait_until(lambda: (len(seen), len(others)) == (1, 1), "both groups have their partitions")
            reads.clear()
            for value in range(2, 12):
                _publish(outbox, value)
                wait_until(lambda: len(seen) == len(others) == value, "it is delivered")  # noqa: B023
        assert seen.values() == others.values() == list(range(1, 12))
        assert reads == []

    def test_what_is_dropped_on_the_way_is_read(
        self, outbox: Outbox, reads: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(known_log, "_WAITING_BYTES", 0)
        seen = Seen()
        subscribe(outbox, "g", seen)
        with working(outbox):
            for value in range(1, 4):
                _publish(outbox, value)
                wait_until(lambda: len(seen) == value, "it is delivered")  # noqa: B023
        assert seen.values() == [1, 2, 3]
        assert reads


def _publish(outbox: Outbox, value: int) -> None:
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", value, key="k")
