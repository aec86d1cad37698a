"""The conformance suite of an outbox: from the caller's transaction into the log, on every engine.

Plain test methods over a fixture `engine`: an object as `Engine` describes it, on an empty store.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from penstock.app import Outbox
from penstock.clock import Clock
from penstock.errors import InvalidSelection, TokenReused
from penstock.log.contract import Position
from penstock.model.record import Record
from penstock.testing import FakeClock
from tests.suites.refusal import refusal


class Engine(Protocol):
    """A store under test."""

    url: str
    clock: FakeClock  # the time of `outbox`
    outbox: Outbox  # with its tables

    def another(self, clock: Clock | None = None) -> Outbox:
        """Open one more outbox on the same store; by default with the same clock."""

    def connect(self) -> AbstractContextManager[Any]:
        """Open a caller's connection, with `execute`, `commit` and `rollback`."""


@dataclass
class OrderPlaced:
    """An event of the suite."""

    order_id: str
    total: int = 0


def in_one_partition(engine: Engine, *topics: str) -> None:
    """Create topics of one partition, so that all records have one order."""
    for name in topics or ("events",):
        engine.outbox.log.create_topic(name, partitions=1)


def logged(engine: Engine, topic: str = "events") -> list[Record]:
    """Return all records of a topic, partition after partition."""
    log = engine.outbox.log
    places = range(log.topic(topic).partitions)
    return [record for place in places for record in log.read(topic, place, limit=10_000)]


def keys(records: Iterable[Record]) -> list[str | None]:
    """Return the records' keys."""
    return [record.key for record in records]


def publish_keys(engine: Engine, *names: str, **options: Any) -> None:
    """Publish one event per key, in one transaction of the caller."""
    with engine.connect() as conn:
        for name in names:
            engine.outbox.publish(conn, "order.placed", {}, key=name, **options)
        conn.commit()


class PublishingSuite:
    """Publishing, scheduling and sequencing."""

    def test_what_was_committed_is_in_the_log_after_a_drain(self, engine: Engine) -> None:
        """P1, T-01: with all its fields."""
        with engine.connect() as conn:
            given = engine.outbox.publish(
                conn, "order.placed", {"total": 42}, key="order-1", headers={"tenant": "a", "null": None}
            )
            conn.commit()
        assert engine.outbox.drain().sequenced == 1
        (record,) = engine.outbox.log.read("events", 33)
        assert (record.id, record.type, record.key) == (given, "order.placed", "order-1")
        assert record.value == {"total": 42}
        assert record.raw_headers == (("tenant", b"a"), ("null", None))
        assert record.timestamp == engine.clock.now()
        assert (record.topic, record.partition, record.offset) == ("events", 33, 0)

    def test_a_rollback_leaves_nothing(self, engine: Engine) -> None:
        """P1, T-01: neither staged nor scheduled, before and after others that commit."""
        in_one_partition(engine)
        publish_keys(engine, "before")
        with engine.connect() as conn:
            engine.outbox.publish(conn, "order.placed", {}, key="never")
            engine.outbox.publish(conn, "order.remind", {}, key="never", at=timedelta(hours=1))
            engine.outbox.publish_many(conn, [{"type": "x", "value": 1}, {"type": "y", "value": 2}])
            conn.rollback()
        publish_keys(engine, "after")
        engine.clock.advance(timedelta(hours=2))
        assert engine.outbox.drain().sequenced == 2
        assert keys(logged(engine)) == ["before", "after"]

    def test_a_savepoint_rolled_back_leaves_nothing_of_its_own(self, engine: Engine) -> None:
        """The events around it stay."""
        in_one_partition(engine)
        with engine.connect() as conn:
            engine.outbox.publish(conn, "order.placed", {}, key="before")
            conn.execute("SAVEPOINT inner_part")
            engine.outbox.publish(conn, "order.placed", {}, key="never")
            engine.outbox.publish(conn, "order.placed", {}, key="never", at=timedelta(seconds=1))
            conn.execute("ROLLBACK TO SAVEPOINT inner_part")
            engine.outbox.publish(conn, "order.placed", {}, key="after")
            conn.commit()
        engine.clock.advance(timedelta(minutes=1))
        engine.outbox.drain()
        assert keys(logged(engine)) == ["before", "after"]

    def test_a_second_drain_finds_nothing(self, engine: Engine) -> None:
        """An event is moved once."""
        in_one_partition(engine)
        publish_keys(engine, "a", "b")
        assert engine.outbox.drain().sequenced == 2
        assert engine.outbox.drain().sequenced == 0
        assert keys(logged(engine)) == ["a", "b"]

    def test_many_events_keep_the_order_they_were_given_in(self, engine: Engine) -> None:
        """Rule 5 of the move: also more than are moved in one transaction, all of one hot key."""
        in_one_partition(engine)
        with engine.connect() as conn:
            ids = engine.outbox.publish_many(
                conn, ({"type": f"t.{number}", "value": number, "key": "hot"} for number in range(2_500))
            )
            conn.commit()
        assert engine.outbox.drain().sequenced == 2_500
        records = logged(engine)
        assert [record.id for record in records] == ids
        assert [record.value for record in records] == list(range(2_500))
        assert [record.offset for record in records] == list(range(2_500))

    def test_many_events_may_be_of_all_kinds(self, engine: Engine) -> None:
        """Mappings and typed events, some for later, to several topics; ids come in the given order."""
        outbox = engine.outbox
        in_one_partition(engine, "events", "other")
        outbox.event("order.placed", key="order_id")(OrderPlaced)
        with engine.connect() as conn:
            ids = outbox.publish_many(
                conn,
                [
                    {"type": "a", "value": 1, "at": timedelta(seconds=5)},
                    OrderPlaced("o-1", 42),
                    {"type": "b", "value": None, "topic": "events"},
                    {"type": "c", "value": b"\x00", "headers": {"h": "v"}, "owner": "me"},
                ],
                topic="other",
            )
            conn.commit()
        outbox.drain()
        engine.clock.advance(timedelta(seconds=5))
        outbox.drain()
        assert [record.id for record in logged(engine)] == [ids[1], ids[2]]
        assert [record.id for record in logged(engine, "other")] == [ids[3], ids[0]]
        assert logged(engine)[0].value == {"order_id": "o-1", "total": 42}

    def test_no_events_are_no_statement(self, engine: Engine) -> None:
        """They need no transaction."""
        with engine.connect() as conn:
            assert engine.outbox.publish_many(conn, []) == []
            assert engine.outbox.publish_many(conn, iter(())) == []

    def test_events_of_one_key_keep_their_order_across_types_and_transactions(self, engine: Engine) -> None:
        """P2, N-03: an event staged after another transaction's commit follows that one."""
        in_one_partition(engine)
        wanted = []
        with engine.connect() as first, engine.connect() as second:
            for number in range(12):
                conn = (first, second)[number % 2]
                engine.outbox.publish(conn, f"type-{number % 3}", number, key="k")
                conn.commit()
                wanted.append((f"type-{number % 3}", number))
                if number == 6:
                    engine.outbox.drain()
        engine.outbox.drain()
        assert [(record.type, record.value) for record in logged(engine)] == wanted

    def test_an_event_for_later_waits_until_it_is_due(self, engine: Engine) -> None:
        """T-11: not a millisecond before, and from then on at once."""
        in_one_partition(engine)
        publish_keys(engine, "later", at=timedelta(hours=1))
        publish_keys(engine, "date", at=engine.clock.now() + timedelta(hours=1, milliseconds=1))
        engine.clock.advance(timedelta(hours=1) - timedelta(milliseconds=1))
        assert engine.outbox.drain().sequenced == 0
        engine.clock.advance(timedelta(milliseconds=1))
        assert engine.outbox.drain().sequenced == 1
        engine.clock.advance(timedelta(milliseconds=1))
        assert engine.outbox.drain().sequenced == 1
        assert keys(logged(engine)) == ["later", "date"]

    def test_an_event_due_already_keeps_its_place_among_the_others(self, engine: Engine) -> None:
        """F9: `at` in the past, or now, goes to the stage and is not overtaken by the next publish."""
        in_one_partition(engine)
        past = engine.clock.now() - timedelta(days=1)
        with engine.connect() as conn:
            for number, at in enumerate((None, past, None, timedelta(), timedelta(seconds=-5), None)):
                engine.outbox.publish(conn, "t", number, key="k", at=at)
            conn.commit()
        engine.outbox.drain()
        assert [record.value for record in logged(engine)] == list(range(6))

    def test_due_events_come_in_the_order_they_became_due(self, engine: Engine) -> None:
        """T-11, B-21: by number, not by digits; those due at the same time in the order of publishing."""
        clock = FakeClock(datetime(2001, 9, 9, tzinfo=UTC))
        outbox = engine.another(clock)
        in_one_partition(engine)
        moments = [1_000_000_000, 999_999_999, 1_000_000_000, 999_999_998]
        with engine.connect() as conn:
            for number, seconds in enumerate(moments):
                outbox.publish(conn, "t", number, key="k", at=datetime.fromtimestamp(seconds, UTC))
            conn.commit()
        clock.advance(timedelta(days=1))
        outbox.drain()
        assert [record.value for record in logged(engine)] == [3, 1, 0, 2]

    def test_due_events_come_before_staged_ones(self, engine: Engine) -> None:
        """Rule 2 of the move: a due event goes first, even if it was published later."""
        in_one_partition(engine)
        publish_keys(engine, "staged")
        publish_keys(engine, "due", at=timedelta(seconds=1))
        engine.clock.advance(timedelta(seconds=1))
        assert engine.outbox.drain().sequenced == 2
        assert keys(logged(engine)) == ["due", "staged"]

    def test_a_cancelled_event_never_comes(self, engine: Engine) -> None:
        """1: it was in time; 0: it was not, or there is no such event."""
        outbox = engine.outbox
        in_one_partition(engine)
        with engine.connect() as conn:
            kept, dropped = (outbox.publish(conn, "t", 1, at=timedelta(minutes=1)) for _ in range(2))
            staged = outbox.publish(conn, "t", 1)
            conn.commit()
            assert outbox.cancel(conn, dropped, topic="other") == 0
            assert outbox.cancel(conn, dropped) == 1
            assert outbox.cancel(conn, dropped) == 0
            assert outbox.cancel(conn, staged) == 0
            conn.commit()
            assert outbox.cancel(conn, kept) == 1
            conn.rollback()
            engine.clock.advance(timedelta(minutes=1))
            outbox.drain()
            assert outbox.cancel(conn, kept) == 0
            conn.commit()
        assert {record.id for record in logged(engine)} == {kept, staged}

    def test_scheduled_events_are_cancelled_by_key_and_by_owner(self, engine: Engine) -> None:
        """Only those of that topic that are still scheduled."""
        outbox, later = engine.outbox, timedelta(minutes=1)
        publish_keys(engine, "a", "a", "b", at=later)
        publish_keys(engine, "a", topic="other", at=later)
        publish_keys(engine, "a")
        publish_keys(engine, "c", "d", at=later, owner="tenant-ü")
        with engine.connect() as conn:
            assert outbox.cancel(conn, key="a") == 2
            assert outbox.cancel(conn, owner="tenant-ü") == 2
            assert outbox.cancel(conn, key="c") == 0
            conn.commit()
        engine.clock.advance(later)
        outbox.drain()
        assert sorted(str(key) for key in keys(logged(engine))) == ["a", "b"]
        assert keys(logged(engine, "other")) == ["a"]

    def test_a_rescheduled_event_comes_at_its_new_time(self, engine: Engine) -> None:
        """Later, sooner or now; True: it was in time."""
        outbox, minute = engine.outbox, timedelta(minutes=1)
        in_one_partition(engine)
        with engine.connect() as conn:
            late, early, now = (outbox.publish(conn, "t", n, key=str(n), at=minute) for n in range(3))
            conn.commit()
            assert outbox.reschedule(conn, late, 3 * minute)
            assert outbox.reschedule(conn, early, engine.clock.now() + timedelta(seconds=1))
            assert outbox.reschedule(conn, now, timedelta())
            conn.commit()
        seen = []
        for wait in (timedelta(), timedelta(seconds=1), minute, 2 * minute):
            engine.clock.advance(wait)
            outbox.drain()
            seen.append(keys(logged(engine)))
        assert seen == [["2"], ["2", "1"], ["2", "1"], ["2", "1", "0"]]
        with engine.connect() as conn:
            assert not outbox.reschedule(conn, late, minute)
            conn.rollback()

    def test_scheduled_events_are_moved_by_key_and_by_owner(self, engine: Engine) -> None:
        """T-12: only those of that topic that are still scheduled; the result is their number."""
        outbox, later = engine.outbox, timedelta(minutes=1)
        publish_keys(engine, "a", "a", "b", at=later)
        publish_keys(engine, "a", topic="other", at=later)
        publish_keys(engine, "c", "d", at=later, owner="tenant-ü")
        with engine.connect() as conn:
            assert outbox.reschedule(conn, at=2 * later, key="a") == 2
            assert outbox.reschedule(conn, at=timedelta(), owner="tenant-ü") == 2
            assert outbox.reschedule(conn, at=later, key="nobody") == 0
            conn.commit()
        seen = []
        for wait in (timedelta(), later, later):
            engine.clock.advance(wait)
            outbox.drain()
            seen.append(sorted(str(key) for key in keys(logged(engine))))
        assert seen == [["c", "d"], ["b", "c", "d"], ["a", "a", "b", "c", "d"]]
        with engine.connect() as conn:
            assert outbox.reschedule(conn, at=later, key="a") == 0
            conn.rollback()
            refusal(InvalidSelection, lambda: outbox.reschedule(conn, at=later))
            refusal(InvalidSelection, lambda: outbox.reschedule(conn, at=later, key="a", owner="b"))

    def test_the_same_token_is_the_same_event(self, engine: Engine) -> None:
        """T-27: within its window, whether or not it was moved meanwhile; a rollback frees the token."""
        outbox, token = engine.outbox, b"paid:7"
        in_one_partition(engine)
        with engine.connect() as conn:
            outbox.publish(conn, "t", 0, token=token)
            conn.rollback()
            assert outbox.published(None, token) is None
            first = outbox.publish(conn, "t", 1, token=token.decode())
            conn.commit()
            outbox.drain()
            assert outbox.publish(conn, "t", 1, token=token, at=timedelta(hours=1)) == first
            refusal(TokenReused, lambda: outbox.publish(conn, "t", 2, token=token))
            other = outbox.publish(conn, "t", 2, token=token, topic="others")
            conn.commit()
        assert outbox.published(None, "paid:7") == first
        assert outbox.published(None, "paid:7", topic="others") == other
        engine.clock.advance(timedelta(days=1))
        outbox.drain()
        assert [record.value for record in logged(engine)] == [1]

    def test_a_transaction_that_is_run_commits_once(self, engine: Engine) -> None:
        """T-27: an exception of its work is raised, and nothing is written."""
        in_one_partition(engine)
        assert engine.outbox.run_in_tx(lambda conn: engine.outbox.publish(conn, "t", 1, key="a"))

        def failing(conn: Any) -> None:
            engine.outbox.publish(conn, "t", 1, key="never")
            raise OrderDeclined

        refusal(OrderDeclined, lambda: engine.outbox.run_in_tx(failing))
        engine.outbox.drain()
        assert keys(logged(engine)) == ["a"]

    def test_topics_are_apart(self, engine: Engine) -> None:
        """Each is created by its first event, with its own offsets."""
        for name in ("orders", "users"):
            publish_keys(engine, "a", "a", topic=name)
        assert engine.outbox.drain().sequenced == 4
        assert [topic.name for topic in engine.outbox.log.topics()] == ["orders", "users"]
        for name in ("orders", "users"):
            assert engine.outbox.log.topic(name).partitions == 256
            assert engine.outbox.log.bounds(name, 178) == (0, 2)

    def test_events_for_a_deleted_topic_make_it_anew(self, engine: Engine) -> None:
        """They were accepted and are not lost; they go to a new topic, from offset 0."""
        in_one_partition(engine)
        publish_keys(engine, "old")
        engine.outbox.drain()
        before = engine.outbox.log.topic("events")
        publish_keys(engine, "waiting")
        engine.outbox.log.delete_topic("events")
        assert engine.outbox.drain().sequenced == 1
        assert engine.outbox.log.topic("events").id != before.id
        assert [(record.key, record.offset) for record in logged(engine)] == [("waiting", 0)]

    def test_the_owner_tag_goes_with_the_event(self, engine: Engine) -> None:
        """From both tables into the log, where it can be searched."""
        with engine.connect() as conn:
            for at in (None, timedelta(seconds=1)):
                engine.outbox.publish(conn, "t", 1, owner="tenant-ü", at=at)
            engine.outbox.publish(conn, "t", 1)
            conn.commit()
            engine.clock.advance(timedelta(seconds=1))
            engine.outbox.drain()
        log, topic = engine.outbox.log, engine.outbox.log.topic("events")
        places = [Position(number, offset) for number, each in log.all_bounds(topic).items() for offset in range(*each)]
        tags = [each.owner for each in log.at(topic, places)]
        assert sorted(tags, key=str) == [None, "tenant-ü", "tenant-ü"]

    def test_a_tombstone_is_not_an_empty_value(self, engine: Engine) -> None:
        """Nor null, nor an empty object."""
        in_one_partition(engine)
        given: list[object] = [None, b"", "", {}, 0]
        with engine.connect() as conn:
            for value in given:
                engine.outbox.publish(conn, "t", value, key="k")
            conn.commit()
        engine.outbox.drain()
        assert [record.data for record in logged(engine)] == [None, b"", b'""', b"{}", b"0"]
        assert [record.value for record in logged(engine)] == given

    def test_text_of_every_plane_goes_through(self, engine: Engine) -> None:
        """B-11: in type, key, value, headers and owner."""
        in_one_partition(engine)
        text = "Straße 注文 \U0001f6d2\U00020000'\"\\%s%(x)s:x?$1{}"
        with engine.connect() as conn:
            for at in (None, timedelta(seconds=1)):
                engine.outbox.publish(
                    conn, text, {text: f"\x00{text}\n"}, key=text, headers={text: text}, at=at, owner=text
                )
            conn.commit()
        engine.clock.advance(timedelta(seconds=1))
        engine.outbox.drain()
        for record in logged(engine):
            assert (record.type, record.key, record.headers) == (text, text, {text: text})
            assert record.value == {text: f"\x00{text}\n"}

    def test_an_event_without_a_key_has_none(self, engine: Engine) -> None:
        """Its id spreads it over the partitions."""
        with engine.connect() as conn:
            engine.outbox.publish_many(conn, ({"type": "t", "value": n} for n in range(40)))
            conn.commit()
        engine.outbox.log.create_topic("events", partitions=4)
        engine.outbox.drain()
        records = logged(engine)
        assert sorted(record.value for record in records) == list(range(40))
        assert {record.key for record in records} == {None}
        assert len({record.partition for record in records}) == 4

    def test_two_outboxes_on_one_store_share_it(self, engine: Engine) -> None:
        """Each moves and reads the events of the other."""
        in_one_partition(engine)
        other = engine.another()
        publish_keys(engine, "a")
        with engine.connect() as conn:
            other.publish(conn, "t", 1, key="b")
            conn.commit()
        assert other.drain().sequenced == 2
        assert engine.outbox.drain().sequenced == 0
        assert keys(other.log.read("events", 0)) == keys(logged(engine)) == ["a", "b"]

    def test_a_transaction_of_the_outbox_commits_at_its_end(self, engine: Engine) -> None:
        """It rolls back when its block raises; changes of the connection by the block do no harm."""
        in_one_partition(engine)
        with engine.outbox.transaction() as conn:
            engine.outbox.publish(conn, "t", 1, key="a")

        def failing() -> None:
            with engine.outbox.transaction() as conn:
                engine.outbox.publish(conn, "t", 1, key="never")
                driver: Any = conn
                driver.row_factory = _no_rows
                raise OrderDeclined

        refusal(OrderDeclined, failing)
        with engine.outbox.transaction() as conn:
            engine.outbox.publish(conn, "t", 1, key="b")
        engine.outbox.drain()
        assert keys(logged(engine)) == ["a", "b"]


class OrderDeclined(Exception):
    """An error of the caller's own code."""


def _no_rows(*_: object) -> Any:
    """Make unusable rows: from cursor and row (SQLite), or as a factory of such a function (psycopg)."""
    return lambda *_: None
