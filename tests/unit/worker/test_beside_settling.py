"""Records are handed out while results are being written: in order, once, and nothing of it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from threading import Event

import pytest

from penstock import Outbox, Record, points
from penstock.clock import SYSTEM
from penstock.delivery.machine import Partition
from penstock.errors import StoreUnreachable
from penstock.model.outcome import Retry
from penstock.worker.delivery_loop import DeliveryLoop
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import LONGEST_SECONDS, wait_until
from tests.working import working


@pytest.fixture(params=["memory", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    points.disarm()


class Shop:
    """A worker at work, whose handler notes what it is given; one settling can be held up."""

    def __init__(self, engine: StoreEngine) -> None:
        self.engine, self.outbox = engine, engine.another(SYSTEM)
        self._elsewhere = engine.another(SYSTEM)  # so the worker is told through the database
        self.seen: list[Record] = []
        self.may_end: dict[int, Event] = {}  # by value: the handler waits for it
        self.failing: list[int] = []
        self.outbox.handler("t", group="g")(self.handle)

    def handle(self, record: Record) -> Retry | None:
        self.seen.append(record)
        if record.value in self.may_end:
            assert self.may_end[record.value].wait(LONGEST_SECONDS)
        if record.value in self.failing:
            self.failing.remove(record.value)
            return Retry(timedelta(milliseconds=10))
        return None

    def publish(self, value: int, key: str) -> None:
        with self._elsewhere.transaction() as conn:
            self._elsewhere.publish(conn, "t", value, key=key)

    def values(self, key: str) -> list[int]:
        return [record.value for record in self.seen if record.key == key]

    def handled(self, key: str, *values: int) -> None:
        wait_until(lambda: self.values(key) == list(values), f"{key} is given {values}", seconds=30)

    def settled(self) -> int:
        """Return how many records the cursors have passed, with nothing waiting."""
        with self.engine.connect() as conn:
            [(done,)] = conn.execute('SELECT coalesce(sum("offset"), 0) FROM penstock_cursor').fetchall()
            [(lanes,)] = conn.execute("SELECT count(*) FROM penstock_lane").fetchall()
            conn.rollback()
        return -1 if lanes else int(done)

    def all_settled(self, count: int) -> None:
        wait_until(lambda: self.settled() == count, f"{count} are settled", seconds=30)

    @contextmanager
    def settling(self, point: str = "delivery.before_settle") -> Iterator[Event]:
        """Hold the next settling up for as long as the block lasts; the event says that it has begun."""
        begun, may_end = Event(), Event()

        def hold() -> None:
            begun.set()
            assert may_end.wait(LONGEST_SECONDS)

        points.arm(point, hold)
        try:
            yield begun
        finally:
            may_end.set()


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[DeliveryLoop]:
    """Note the loops that are started."""
    started, start = list[DeliveryLoop](), DeliveryLoop.start

    def noted(loop: DeliveryLoop) -> None:
        started.append(loop)
        start(loop)

    monkeypatch.setattr(DeliveryLoop, "start", noted)
    return started


@pytest.fixture
def shop(engine: StoreEngine, loops: list[DeliveryLoop]) -> Iterator[Shop]:
    """Give one that has delivered and settled a record of each key."""
    made = Shop(engine)
    with working(made.outbox):
        for key in ("a", "b"):
            made.publish(0, key)
            made.handled(key, 0)
        made.all_settled(2)
        yield made


def begun(settling: Event) -> None:
    assert settling.wait(30), "the results are written"


def collected(loop: DeliveryLoop) -> None:
    """Take note, beside the settling, of the results of all that was handed out."""

    def is_quiet() -> bool:
        loop.grown({}, few=True)
        return not any(group.in_flight for group in loop._groups)

    wait_until(is_quiet, "the results have come", seconds=30)
    assert loop._turn.is_writing


def test_what_comes_meanwhile_is_handed_out_in_order_and_settled_after(
    shop: Shop, loops: list[DeliveryLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, confirm = list[bool](), Partition.confirm

    def confirmed(machine: Partition, *, skips: bool) -> None:
        beside.append(loops[0]._turn.is_writing)
        confirm(machine, skips=skips)

    monkeypatch.setattr(Partition, "confirm", confirmed)
    with shop.settling() as settling:
        shop.publish(1, "a")
        begun(settling)
        shop.publish(2, "a")
        shop.handled("a", 0, 1, 2)
        shop.publish(1, "b")
        shop.publish(3, "a")
        shop.handled("b", 0, 1)
        shop.handled("a", 0, 1, 2, 3)
        collected(loops[0])
        assert shop.settled() == 2, "the settling waits"
    shop.all_settled(6)
    assert [record.value for record in shop.seen if record.redelivered] == []
    assert beside, "something was settled"
    assert not any(beside), "while another thread may have the machines, nobody else touches them"


def test_nothing_is_handed_out_meanwhile_where_a_turn_may_have_to_write(shop: Shop, loops: list[DeliveryLoop]) -> None:
    """Partitions are to change hands, so the loop looks at them first, when it has its turn again."""
    [loop] = loops
    with shop.settling() as settling:
        shop.publish(1, "a")
        begun(settling)
        loop.attend(loop._groups._domains)
        assert not loop._turn.take(), "it is left to the loop"
        shop.publish(1, "b")
        assert shop.values("b") == [0]
    shop.handled("b", 0, 1)
    shop.all_settled(4)


def test_a_record_waits_for_the_one_of_its_key_that_is_out(shop: Shop) -> None:
    shop.may_end[1] = Event()
    shop.publish(1, "a")
    shop.handled("a", 0, 1)
    with shop.settling() as settling:
        shop.publish(2, "b")
        begun(settling)
        shop.publish(2, "a")
        shop.publish(3, "b")
        shop.handled("b", 0, 2, 3)
        assert shop.values("a") == [0, 1]
        shop.may_end[1].set()
    shop.handled("a", 0, 1, 2)
    shop.all_settled(6)


def test_what_fails_meanwhile_holds_its_key_and_is_tried_again(shop: Shop) -> None:
    shop.failing = [2]
    with shop.settling() as settling:
        shop.publish(1, "a")
        begun(settling)
        shop.publish(2, "a")
        shop.handled("a", 0, 1, 2)
        shop.publish(3, "a")
        shop.publish(1, "b")
        shop.handled("b", 0, 1)
    shop.handled("a", 0, 1, 2, 2, 3)
    shop.all_settled(6)
    assert [record.value for record in shop.seen if record.redelivered] == [2]


def test_a_partition_lost_meanwhile_takes_nothing_and_comes_again_marked(shop: Shop) -> None:
    with shop.settling() as settling:
        shop.publish(1, "a")
        begun(settling)
        shop.publish(2, "a")
        shop.handled("a", 0, 1, 2)
        # Another has taken it, and has given it back since.
        shop.engine._change("UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 2")
        assert shop.settled() == 2
    shop.handled("a", 0, 1, 2, 1, 2)
    shop.all_settled(4)
    assert [(r.value, r.redelivered) for r in shop.seen if r.key == "a"][1:] == [
        (1, False),
        (2, False),
        (1, True),
        (2, True),
    ]


def test_what_ended_meanwhile_is_marked_if_its_own_settling_is_refused(shop: Shop, loops: list[DeliveryLoop]) -> None:
    with ExitStack() as later:
        with shop.settling() as first:
            shop.publish(1, "a")
            begun(first)
            shop.publish(2, "a")
            shop.handled("a", 0, 1, 2)
            collected(loops[0])
            second = later.enter_context(shop.settling())
        begun(second)
        shop.engine._change("UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 2")
        assert shop.settled() == 3, "the first one is written"
    shop.handled("a", 0, 1, 2, 2)
    shop.all_settled(4)
    assert [record.redelivered for record in shop.seen if record.key == "a"] == [False, False, False, True]


@pytest.mark.parametrize("point", ["delivery.before_settle", "delivery.after_settle"])
def test_a_settling_in_doubt_loses_nothing_of_what_came_meanwhile(shop: Shop, point: str) -> None:
    """It has failed before it was written, or after."""
    with shop.settling() as settling:
        shop.publish(1, "a")
        begun(settling)
        shop.publish(2, "a")
        shop.handled("a", 0, 1, 2)
        points.arm("delivery.after_settle", points.fail(StoreUnreachable("here", "gone")))
        if point == "delivery.before_settle":
            points.arm(point, points.fail(StoreUnreachable("here", "gone")))
    shop.publish(3, "a")
    wait_until(lambda: shop.values("a")[-1] == 3, "the next one comes", seconds=30)
    shop.all_settled(5)
    assert list(dict.fromkeys(shop.values("a"))) == [0, 1, 2, 3]
    before = set[int]()
    for record in [each for each in shop.seen if each.key == "a"]:
        assert record.redelivered or record.value not in before, "what comes again is marked"
        before.add(record.value)


def test_a_stop_waits_for_the_settling_and_settles_what_came_meanwhile(engine: StoreEngine) -> None:
    made = Shop(engine)
    with working(made.outbox) as until:
        made.publish(0, "a")
        made.handled("a", 0)
        made.all_settled(1)
        with made.settling() as settling:
            made.publish(1, "a")
            begun(settling)
            made.publish(2, "a")
            made.handled("a", 0, 1, 2)
            until.set()
    assert made.settled() == 3


def test_another_worker_finds_nothing_left(shop: Shop, engine: StoreEngine) -> None:
    with shop.settling() as settling:
        shop.publish(1, "a")
        begun(settling)
        shop.publish(2, "a")
        shop.handled("a", 0, 1, 2)
    shop.all_settled(4)
    later = list[Record]()
    other: Outbox = engine.another(SYSTEM)
    other.handler("t", group="g")(later.append)
    other.drain()
    assert later == []
