"""The guarantees to handlers on every engine: each group's records, their order, the effect of failures.

Plain test methods over `drain`; they take the same fixture `engine` as `outbox_suite`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Lock
from typing import Any

from penstock.app import Outbox
from penstock.model.outcome import Cancel, Done, Retry, Snooze
from penstock.model.record import Record
from penstock.model.retry import Exponential, Fixed
from penstock.worker.handler_options import Match
from tests.suites.outbox_suite import Engine, OrderDeclined, in_one_partition, keys, publish_keys
from tests.suites.refusal import refusal

# Keys in different partitions of a topic of four; "x", "y" and "z" of one key each.
_PARTITIONS = 4
_PAST_ANY_RETRY = timedelta(seconds=60)


class Seen(list[Record]):
    """A handler that remembers its records, and fails on certain values."""

    def __init__(self, *failing: object) -> None:
        super().__init__()
        self.failing = list(failing)

    def __call__(self, record: Record) -> None:
        """Handle a record."""
        self.append(record)
        if record.value in self.failing:
            raise OrderDeclined(record.value)

    def values(self) -> list[Any]:
        """Return the values in order of arrival."""
        return [record.value for record in self]


def subscribe(outbox: Outbox, group: str, handler: Callable[[Record], Any], **options: Any) -> None:
    """Register a handler for all records of a topic, under the group's name."""
    outbox.handler(options.pop("match", None), group=group, id=options.pop("id", group), **options)(handler)


def publish_values(engine: Engine, *values: int, key: str = "k", type: str = "t") -> None:
    """Publish some numbers under one key, in one transaction."""
    with engine.connect() as conn:
        for value in values:
            engine.outbox.publish(conn, type, value, key=key)
        conn.commit()


def _noting(seen: list[str]) -> Callable[[Record], None]:
    return lambda record: seen.append(f"{record.type}/{record.value}")


class HandlingSuite:
    """Handlers, groups and cursors."""

    def test_a_handler_gets_each_record_once_and_in_order(self, engine: Engine) -> None:
        """With its position in the log."""
        seen = Seen()
        subscribe(engine.outbox, "g", seen)
        publish_values(engine, 1, 2, 3, key="order-1")
        counts = engine.outbox.drain()
        assert (counts.sequenced, counts.delivered, counts.retried) == (3, 3, 0)
        publish_values(engine, 4, key="order-1")
        assert engine.outbox.drain().delivered == 1
        assert engine.outbox.drain().delivered == 0
        assert [(record.value, record.partition, record.offset) for record in seen] == [
            (value, 33, value - 1) for value in (1, 2, 3, 4)
        ]

    def test_a_record_says_its_handler_its_token_and_its_trace(self, engine: Engine) -> None:
        """N-16: also at a retry and in the fallback; the token is not among the headers."""
        seen, last = Seen(1), Seen()
        subscribe(engine.outbox, "g", seen, id="book", retry=Fixed(1, max_retries=1), fallback=last)
        trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        headers = {"tenant": "a", "traceparent": f"00-{trace}-{span}-01"}
        with engine.connect() as conn:
            for value in (1, 2):
                engine.outbox.publish(conn, "t", value, key="k", token=f"t-{value}", headers=headers)
            engine.outbox.publish(conn, "t", 3, key="k", at=timedelta(seconds=1), token=b"\xff")
            engine.outbox.publish(conn, "t", 4, key="k", at=timedelta(seconds=2))
            conn.commit()
        engine.outbox.drain()
        engine.clock.advance(_PAST_ANY_RETRY)
        engine.outbox.drain()
        assert seen.values() == [1, 1, 2, 3, 4]
        assert [record.token for record in seen] == ["t-1", "t-1", "t-2", b"\xff", None]
        assert {record.handler_id for record in [*seen, *last]} == {"book"}
        assert [record.token for record in last] == ["t-1"]
        assert all(record.headers == headers for record in seen[:3])
        assert [record.headers for record in seen[3:]] == [{}, {}]
        assert {(record.trace_id, record.span_id) for record in seen[:3]} == {(trace, span)}
        assert {(record.trace_id, record.span_id) for record in seen[3:]} == {(None, None)}

    def test_the_narrowest_match_gets_the_record(self, engine: Engine) -> None:
        """Exact, predicate, the longer prefix, the shorter one, all; whatever the order of registration."""
        got: dict[str, list[str]] = {}
        matches: dict[str, Match] = {
            "all": None,
            "short": "order.*",
            "long": "order.item.*",
            "big": lambda record: record.value > 10,
            "exact": "order.placed",
        }
        for name, match in matches.items():
            subscribe(engine.outbox, "g", _noting(got.setdefault(name, [])), match=match, id=name)
        in_one_partition(engine)
        for type in ("order.placed", "order.item.added", "order.paid", "order", "ordered", "user.made"):
            publish_values(engine, 1, 11, type=type)
        assert engine.outbox.drain().delivered == 12
        assert got == {
            "exact": ["order.placed/1", "order.placed/11"],
            "big": [f"{t}/11" for t in ("order.item.added", "order.paid", "order", "ordered", "user.made")],
            "long": ["order.item.added/1"],
            "short": ["order.paid/1"],
            "all": ["order/1", "ordered/1", "user.made/1"],
        }

    def test_records_that_no_handler_wants_move_the_cursor(self, engine: Engine) -> None:
        """T-07: without a call; a handler that is added for them gets them late, beside new records."""
        seen = Seen()
        subscribe(engine.outbox, "g", seen, match="wanted")
        publish_values(engine, 1, 2, type="other")
        publish_values(engine, 3, type="wanted")
        assert engine.outbox.drain().delivered == 1
        subscribe(engine.outbox, "g", seen, match="other", id="late")
        publish_values(engine, 4, type="other")
        engine.outbox.drain()
        assert [record.value for record in seen if not record.late] == [3, 4]
        assert [record.value for record in seen if record.late] == [1, 2]

    def test_every_group_sees_every_record(self, engine: Engine) -> None:
        """T-08: each with its own cursor."""
        groups = {name: Seen() for name in ("a", "b", "ü 注文")}
        for name, seen in groups.items():
            subscribe(engine.outbox, name, seen)
        publish_values(engine, 1, 2, 3)
        assert engine.outbox.drain().delivered == 9
        assert [seen.values() for seen in groups.values()] == [[1, 2, 3]] * 3

    def test_a_failing_group_does_not_touch_another(self, engine: Engine) -> None:
        """T-08, B-22, N-14: the other sees every record once, in order, while this one makes no progress."""
        failing, well = Seen(1), Seen()
        subscribe(engine.outbox, "failing", failing)
        subscribe(engine.outbox, "well", well)
        for turn in range(3):
            publish_values(engine, 2 * turn + 1, 2 * turn + 2)
            engine.outbox.drain()
            engine.clock.advance(_PAST_ANY_RETRY)
        assert well.values() == [1, 2, 3, 4, 5, 6]
        assert failing.values() == [1, 1, 1]

    def test_a_failing_record_parks_its_key_only(self, engine: Engine) -> None:
        """P2: earlier records are settled, later ones of its key wait, other keys of its partition go on."""
        in_one_partition(engine)
        seen = Seen(2)
        subscribe(engine.outbox, "g", seen)
        publish_values(engine, 1, 2, 3, key="order-1")
        publish_values(engine, 10, 20, 30, key="user-456")
        counts = engine.outbox.drain()
        assert (counts.delivered, counts.retried, counts.parked) == (4, 1, 1)
        assert sorted(seen.values()) == [1, 2, 10, 20, 30]

    def test_a_failing_record_is_tried_again_when_that_is_due(self, engine: Engine) -> None:
        """T-17: once it succeeds, the records behind it follow, each once."""
        seen = Seen(2)
        subscribe(engine.outbox, "g", seen, retry=Exponential(initial_delay=timedelta(seconds=2)))
        publish_values(engine, 1, 2, 3)
        for seconds in (0, 1.999, 0.001):
            engine.clock.advance(timedelta(seconds=seconds))
            engine.outbox.drain()
        assert seen.values() == [1, 2, 2]
        seen.failing.clear()
        engine.clock.advance(timedelta(seconds=4))
        counts = engine.outbox.drain()
        assert (counts.delivered, counts.retried, counts.parked) == (2, 0, 0)
        assert seen.values() == [1, 2, 2, 2, 3]
        assert [(record.attempt, record.redelivered) for record in seen[1:4]] == [(1, False), (2, True), (3, True)]

    def test_a_record_that_used_up_its_retries_holds_its_key_as_a_dead_letter(self, engine: Engine) -> None:
        """D-03: later records of the key wait for an operator, in any number of drains; other keys go on."""
        in_one_partition(engine)
        seen = Seen(1)
        subscribe(engine.outbox, "g", seen, retry=Fixed(timedelta(seconds=1), max_retries=2))
        publish_values(engine, 1, 2)
        totals = [engine.outbox.drain()]
        for _ in range(4):
            engine.clock.advance(_PAST_ANY_RETRY)
            totals.append(engine.outbox.drain())
        publish_values(engine, 3)
        publish_values(engine, 10, key="other")
        totals.append(engine.outbox.drain())
        assert seen.values() == [1, 1, 1, 10]
        assert [(each.retried, each.dead) for each in totals[:3]] == [(1, 0), (1, 0), (0, 1)]
        assert sum(each.retried + each.dead for each in totals[3:]) == 0

    def test_a_record_may_be_retried_alone(self, engine: Engine) -> None:
        """With `alone`, or with `release` once it is dead, the rest of its key flows."""
        alone, released = Seen(1), Seen(1)
        subscribe(engine.outbox, "alone", alone, on_failure="alone")
        never = Fixed(timedelta(seconds=1), max_retries=0)
        subscribe(engine.outbox, "released", released, retry=never, on_exhausted="release")
        publish_values(engine, 1, 2, 3)
        counts = engine.outbox.drain()
        assert (counts.delivered, counts.retried, counts.dead) == (4, 1, 1)
        alone.failing.clear()
        engine.clock.advance(_PAST_ANY_RETRY)
        engine.outbox.drain()
        assert (alone.values(), released.values()) == ([1, 2, 3, 1], [1, 2, 3])

    def test_outcomes_are_values(self, engine: Engine) -> None:
        """A snooze counts no attempt, a cancel lets the key go on, a retry comes at its own time."""
        answers: list[object] = [Snooze(timedelta(seconds=5)), Cancel("no need"), Retry(timedelta(seconds=3))]
        seen: list[tuple[int, int]] = []

        def handler(record: Record) -> object:
            seen.append((record.value, record.attempt))
            return answers.pop(0) if answers else None

        subscribe(engine.outbox, "g", handler)
        publish_values(engine, 1, 2)
        found = []
        for seconds in (0, 4, 1, 2, 1):
            engine.clock.advance(timedelta(seconds=seconds))
            counts = engine.outbox.drain()
            found.append((counts.delivered, counts.retried, counts.dead))
        assert seen == [(1, 1), (1, 1), (2, 1), (2, 2)]
        assert found == [(0, 1, 0), (0, 0, 0), (0, 1, 1), (0, 0, 0), (1, 0, 0)]

    def test_a_fallback_is_called_once_before_a_record_is_given_up(self, engine: Engine) -> None:
        """If it succeeds, nothing is dead and the key goes on."""
        seen, fallen = Seen(1), Seen()
        never = Fixed(timedelta(seconds=1), max_retries=0)
        subscribe(engine.outbox, "g", seen, retry=never, fallback=fallen)
        publish_values(engine, 1, 2)
        counts = engine.outbox.drain()
        assert (counts.delivered, counts.dead) == (2, 0)
        assert (seen.values(), fallen.values()) == ([1, 2], [1])

    def test_a_predicate_that_raises_is_a_failure_of_its_group_only(self, engine: Engine) -> None:
        """It is user code, like the handler."""
        well, odd = Seen(), Seen()
        subscribe(engine.outbox, "odd", odd, match=lambda record: record.value["no such"] > 1)
        subscribe(engine.outbox, "well", well)
        publish_values(engine, 1, 2)
        counts = engine.outbox.drain()
        assert (counts.delivered, counts.retried) == (2, 1)
        assert (well.values(), odd.values()) == ([1, 2], [])

    def test_what_a_handler_publishes_is_drained_in_the_same_call(self, engine: Engine) -> None:
        """Through any number of steps."""
        outbox, seen = engine.outbox, Seen()

        def step(record: Record) -> None:
            seen(record)
            if record.value < 5:
                with outbox.transaction() as conn:
                    outbox.publish(conn, "t", record.value + 1, key=f"k-{record.value}")

        subscribe(outbox, "g", step)
        publish_values(engine, 1)
        counts = outbox.drain()
        assert (counts.sequenced, counts.delivered) == (5, 5)
        assert seen.values() == [1, 2, 3, 4, 5]

    def test_what_a_failing_handler_has_published_is_drained_too(self, engine: Engine) -> None:
        """It is committed like any other event, even if the drain did nothing else."""
        outbox, others = engine.outbox, Seen()

        def failing(record: Record) -> None:
            if failing_now:
                with outbox.transaction() as conn:
                    outbox.publish(conn, "t", 2, key="k", topic="others")
            raise OrderDeclined

        failing_now = False
        subscribe(outbox, "failing", failing)
        subscribe(outbox, "others", others, topic="others")
        publish_values(engine, 1)
        outbox.drain()
        failing_now = True
        engine.clock.advance(_PAST_ANY_RETRY)
        assert outbox.drain().sequenced == 1
        assert others.values() == [2]

    def test_a_handler_added_later_gets_what_was_there_before_it(self, engine: Engine) -> None:
        """N-12, B-18: an event published before its handler existed waits in the log."""
        publish_values(engine, 1, 2)
        engine.outbox.drain()
        late = engine.another()
        seen = Seen()
        subscribe(late, "late", seen, start="earliest")
        publish_values(engine, 3)
        assert late.drain().delivered == 3
        assert seen.values() == [1, 2, 3]

    def test_a_group_that_starts_at_the_latest_gets_what_comes_after_its_first_drain(self, engine: Engine) -> None:
        """In partitions that held records then, and in empty ones."""
        engine.outbox.log.create_topic("events", partitions=_PARTITIONS)
        seen, early = Seen(), Seen()
        publish_values(engine, 1, 2, key="order-1")
        subscribe(engine.outbox, "late", seen, start="latest")
        subscribe(engine.outbox, "early", early)
        engine.outbox.drain()
        assert (seen.values(), early.values()) == ([], [1, 2])
        publish_values(engine, 3, key="order-1")
        publish_values(engine, 4, key="user-456")
        engine.outbox.drain()
        assert sorted(seen.values()) == [3, 4]

    def test_a_group_that_starts_at_the_latest_may_come_before_its_topic(self, engine: Engine) -> None:
        """Then it gets all records: there were none when it began."""
        seen = Seen()
        subscribe(engine.outbox, "early", seen, start="latest")
        engine.outbox.drain()
        publish_values(engine, 1, 2)
        engine.outbox.drain()
        assert seen.values() == [1, 2]

    def test_where_a_group_starts_counts_only_the_first_time(self, engine: Engine) -> None:
        """A later process continues at the group's cursor."""
        seen = Seen()
        publish_values(engine, 1)
        subscribe(engine.outbox, "g", seen, start="latest")
        engine.outbox.drain()
        publish_values(engine, 2)
        other = engine.another()
        subscribe(other, "g", seen, start="latest")
        other.drain()
        assert seen.values() == [2]

    def test_an_async_handler_is_awaited(self, engine: Engine) -> None:
        """One record after the other; an exception of it is a failure like any other."""
        seen = Seen(2)

        async def handler(record: Record) -> None:
            await asyncio.sleep(0)
            seen(record)

        subscribe(engine.outbox, "g", handler)
        publish_values(engine, 1, 2, 3)
        assert engine.outbox.drain().retried == 1
        seen.failing.clear()
        engine.clock.advance(_PAST_ANY_RETRY)
        assert engine.outbox.drain().delivered == 2
        assert seen.values() == [1, 2, 2, 3]

    def test_async_handlers_of_one_drain_share_a_loop(self, engine: Engine) -> None:
        """So that a session or pool made by one serves the next."""
        loops: list[asyncio.AbstractEventLoop] = []

        async def handler(record: Record) -> None:
            loops.append(asyncio.get_running_loop())

        subscribe(engine.outbox, "g", handler)
        publish_values(engine, 1, 2)
        engine.outbox.drain()
        assert loops[0] is loops[1]

    def test_async_handlers_run_also_when_the_caller_stands_in_a_loop(self, engine: Engine) -> None:
        """An async test may drain, though that blocks its loop."""
        seen = Seen()

        async def handler(record: Record) -> None:
            await asyncio.sleep(0)
            seen(record)

        async def caller() -> int:
            return engine.outbox.drain().delivered

        subscribe(engine.outbox, "g", handler)
        publish_values(engine, 1, 2)
        assert asyncio.run(caller()) == 2
        assert seen.values() == [1, 2]

    def test_an_answer_that_is_no_outcome_is_a_failure(self, engine: Engine) -> None:
        """Done and None are done; anything else is a failure, and the record is retried."""
        answers: list[object] = [None, Done(), True, "done", Retry(timedelta(seconds=1)), None]
        subscribe(engine.outbox, "g", lambda record: answers.pop(0))
        publish_values(engine, 1, 2, 3)
        counted = []
        for _ in range(4):
            counts = engine.outbox.drain()
            counted.append((counts.delivered, counts.retried))
            engine.clock.advance(_PAST_ANY_RETRY)
        assert counted == [(2, 1), (0, 1), (0, 1), (1, 0)]

    def test_a_drain_that_is_torn_down_leaves_the_rest_for_the_next(self, engine: Engine) -> None:
        """Ctrl-C or exit in a handler ends the drain; nothing stays owned or is lost."""
        seen = Seen()

        def handler(record: Record) -> None:
            seen(record)
            if len(seen) == 2:
                raise SystemExit

        subscribe(engine.outbox, "g", handler)
        publish_values(engine, 1, 2, 3)
        refusal(SystemExit, engine.outbox.drain)
        engine.another()
        assert engine.outbox.drain().retried == 0
        assert seen.values()[-2:] == [2, 3]

    def test_topics_have_cursors_of_their_own(self, engine: Engine) -> None:
        """One group may read several."""
        seen = Seen()
        for topic in ("orders", "users"):
            subscribe(engine.outbox, "g", seen, topic=topic, id=topic)
            publish_keys(engine, topic, topic=topic)
        publish_keys(engine, "nobody's", topic="others")
        assert engine.outbox.drain().delivered == 2
        assert sorted(map(str, keys(seen))) == ["orders", "users"]

    def test_a_topic_made_again_is_read_from_its_start(self, engine: Engine) -> None:
        """The old topic's cursors are deleted with it."""
        seen = Seen()
        subscribe(engine.outbox, "g", seen)
        publish_values(engine, 1, 2)
        engine.outbox.drain()
        engine.outbox.log.delete_topic("events")
        publish_values(engine, 3)
        engine.outbox.drain()
        assert seen.values() == [1, 2, 3]

    def test_two_drains_at_once_hand_out_each_record_once(self, engine: Engine) -> None:
        """P6: no failure, no duplicate; per key in order."""
        lock, together = Lock(), Barrier(2)
        seen: list[tuple[str | None, int]] = []

        def handler(record: Record) -> None:
            with lock:
                seen.append((record.key, record.value))

        def drained(outbox: Outbox) -> int:
            total = 0
            for turn in range(6):
                together.wait()
                with outbox.transaction() as conn:
                    for number in range(20):
                        outbox.publish(conn, "t", turn, key=f"{id(outbox)}-{number}")
                total += outbox.drain().delivered
            return total

        outboxes = [engine.another(), engine.another()]
        for outbox in outboxes:
            subscribe(outbox, "g", handler)
        with ThreadPoolExecutor(2) as pool:
            delivered = sum(pool.map(drained, outboxes))
        delivered += outboxes[0].drain().delivered
        assert delivered == len(seen) == len(set(seen)) == 2 * 6 * 20
        for key in {key for key, _ in seen}:
            assert [value for each, value in seen if each == key] == list(range(6))
