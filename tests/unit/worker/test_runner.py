"""Handlers in threads and in the loop: what runs when, what comes out, and what is left behind."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from penstock import Cancel, Done, Fixed, Retry, metrics
from penstock.clock import SYSTEM, Clock
from penstock.delivery.verdict import Dead, Parked, Passed, Rules, Verdict
from penstock.errors import WrongSettingType
from penstock.model.event_types import EventTypes
from penstock.model.record import Record
from penstock.testing import FakeClock
from penstock.worker.calling.hung_calls import HungCalls
from penstock.worker.calling.limiter import Limiter
from penstock.worker.calling.runner import ProcessingSettings, Runner
from penstock.worker.handler import Handler, HandlerTask, TaskPlace
from tests.crash.waiting import wait_until
from tests.suites.records import a_record

WAIT = 60.0  # seconds after which a test gives up; none waits so long
asking: ContextVar[str] = ContextVar("asking", default="nobody")


class Loop:
    """A delivery loop for tests: it hands in, waits to be woken, and collects."""

    def __init__(self, runner: Callable[..., Runner], **options: Any) -> None:
        self.woken = threading.Event()
        self.wakes = 0
        self.runner = runner(wake=self.wake, **options)
        self.results: list[tuple[HandlerTask, Verdict | None]] = []

    def wake(self) -> None:
        self.wakes += 1
        self.woken.set()

    def collect(self, many: int) -> list[Any]:
        """Wait for so many results and return their verdicts, in the order of the offsets."""
        while len(self.results) < many:
            assert self.woken.wait(WAIT), f"{len(self.results)} of {many} results came"
            self.woken.clear()
            self.results += self.runner.finished()
        assert len(self.results) == many
        found, self.results = self.results, []
        return [verdict for _, verdict in sorted(found, key=lambda each: each[0].place)]


@pytest.fixture
def loop() -> Iterator[Callable[..., Loop]]:
    """Give runners with their loops; they are closed in the end."""
    made: list[Loop] = []

    def make(threads: int = 4, clock: Clock = SYSTEM, **options: Any) -> Loop:
        made.append(Loop(Runner, threads=threads, clock=clock, **options))
        return made[-1]

    yield make
    for each in made:
        each.runner.close(1.0)


def a_handler(function: Callable[..., Any], id: str = "shop.mail", **options: Any) -> Handler:
    """Return a handler with what a test leaves out filled in."""
    rules, group = options.pop("rules", Rules(Fixed(max_retries=3))), options.pop("group", "g")
    return Handler(function=function, group=group, id=id, rules=rules, **options)


def tasks_of(handler: Handler, many: int = 1, **others: Any) -> list[HandlerTask]:
    """Return so many tasks, at offsets from 0."""
    return [HandlerTask(TaskPlace(0, at), f"k-{at}", handler, a_record(**others), 0) for at in range(many)]


def reason(verdict: Verdict) -> str:
    """Return the reason of a failure."""
    assert isinstance(verdict, Parked | Dead)
    return verdict.reason


def test_sync_handlers_run_in_threads_of_their_own(loop: Callable[..., Loop]) -> None:
    names: list[str] = []
    barrier = threading.Barrier(4, timeout=WAIT)

    def handler(record: Record) -> None:
        names.append(threading.current_thread().name)
        barrier.wait()  # only if four run at once does any go on

    mine = loop(threads=4)
    before = threading.active_count()
    mine.runner.submit([])
    assert threading.active_count() <= before + 1
    mine.runner.submit(tasks_of(a_handler(handler), 8))
    assert mine.collect(8) == [Passed()] * 8
    assert {name.rpartition("-")[0] for name in names} == {"penstock-handler"}
    assert len(set(names)) == 4
    assert (mine.runner.waiting(), mine.runner.running()) == (0, 0)


def test_outcomes_and_errors_become_verdicts(loop: Callable[..., Loop]) -> None:
    answers = iter([None, Done(), Retry(), Cancel("no order"), 5])

    def handler(record: Record) -> Any:
        return next(answers)

    mine = loop(threads=1)
    mine.runner.submit(tasks_of(a_handler(handler), 6))
    passed, done, again, dead, wrong, raised = mine.collect(6)
    assert (passed, done) == (Passed(), Passed())
    assert reason(again) == "asked for a retry"
    assert dead == Dead(0, "no order", hold=False)
    assert "InvalidOutcome" in reason(wrong)
    assert reason(raised) == "StopIteration"


def test_a_slow_handler_delays_no_other(loop: Callable[..., Loop]) -> None:
    go = threading.Event()
    mine = loop(threads=2)
    slow = a_handler(lambda record: go.wait(WAIT) and None, "slow")
    quick = a_handler(lambda record: None, "quick")
    mine.runner.submit(tasks_of(slow, 1) + tasks_of(quick, 100))
    mine.collect(100)
    assert mine.runner.running() == 1
    go.set()
    mine.collect(1)


def test_results_are_not_left_lying_while_others_run(loop: Callable[..., Loop]) -> None:
    go, begun = threading.Event(), threading.Event()
    order: list[int] = []

    def handler(record: Record) -> None:
        order.append(1)
        if len(order) == 2:
            begun.set()
            go.wait(WAIT)

    mine = loop(threads=1)
    mine.runner.submit(tasks_of(a_handler(handler), 3))
    mine.collect(1)  # though more was queued when it ended
    assert begun.wait(WAIT)
    go.set()
    mine.collect(2)


def test_the_pump_is_not_woken_for_each_record(loop: Callable[..., Loop]) -> None:
    mine = loop(threads=2)
    mine.runner.submit(tasks_of(a_handler(lambda record: None), 2000))
    mine.collect(2000)
    assert mine.wakes < 200


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("is_async", [False, True])
def test_what_would_end_the_thread_is_a_failure_like_any_other(
    loop: Callable[..., Loop], error: BaseException, is_async: bool
) -> None:
    def fails(record: Record) -> None:
        raise error

    async def fails_async(record: Record) -> None:
        raise error

    mine = loop(threads=1)
    handler = a_handler(fails_async if is_async else fails)
    mine.runner.submit(tasks_of(handler, 3))
    assert all(type(error).__name__ in reason(each) for each in mine.collect(3))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("broken", ["known_text", "chain"])
def test_an_error_that_cannot_be_examined_has_a_verdict_by_its_name(
    loop: Callable[..., Loop], monkeypatch: pytest.MonkeyPatch, broken: str, batch: int | None, is_async: bool
) -> None:
    """Its thread ended, and its record stayed without a verdict."""

    def fails(given: Any) -> None:
        raise LookupError("gone")

    async def fails_async(given: Any) -> None:
        fails(given)

    def too_deep(*args: object) -> None:
        raise RecursionError

    monkeypatch.setattr(f"penstock.redaction.{broken}", too_deep)
    mine = loop(threads=1)
    handler = a_handler(fails_async if is_async else fails, batch=batch, fallback=fails)
    mine.runner.submit(tasks_of(handler, 3))
    assert [reason(each) for each in mine.collect(3)] == ["LookupError"] * 3
    last = HandlerTask(TaskPlace(0, 9), "k", handler, a_record(), 3)
    mine.runner.submit([last])
    (verdict,) = mine.collect(1)
    assert (type(verdict), reason(verdict)) == (Dead, "LookupError")


@pytest.mark.parametrize("batch", [None, 3])
def test_an_answer_that_cannot_be_shown_is_a_failure(loop: Callable[..., Loop], batch: int | None) -> None:
    """An integer of so many digits cannot be written: a batch's thread ended by the ValueError."""
    mine = loop(threads=1)
    mine.runner.submit(tasks_of(a_handler(lambda given: [10**9999] * 3 if batch else 10**9999, batch=batch), 3))
    assert all(reason(each).startswith("ValueError") for each in mine.collect(3))


def test_a_failure_that_cannot_be_logged_is_settled(loop: Callable[..., Loop], monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("no space left")

    monkeypatch.setattr(logging.getLogger("penstock.handlers"), "handlers", [Full()])
    mine = loop(threads=1)
    mine.runner.submit(tasks_of(a_handler(lambda record: 1 / 0), 2))
    assert all(reason(each).startswith("ZeroDivisionError") for each in mine.collect(2))


def test_system_exit_in_a_task_of_an_async_handler_does_not_end_the_loop(loop: Callable[..., Loop]) -> None:
    async def leaves() -> None:
        raise SystemExit(3)

    async def handler(record: Record) -> None:
        await asyncio.wait([asyncio.ensure_future(leaves())])

    mine = loop()
    mine.runner.submit(tasks_of(a_handler(handler), 2))
    assert mine.collect(2) == [Passed()] * 2


def test_each_call_has_a_context_of_its_own(loop: Callable[..., Loop]) -> None:
    seen: list[str] = []

    def handler(record: Record) -> None:
        seen.append(asking.get())
        asking.set("the call before")

    async def async_handler(record: Record) -> None:
        handler(record)

    token = asking.set("the runner")
    mine = loop(threads=1)
    asking.reset(token)
    mine.runner.submit(tasks_of(a_handler(handler), 3))
    mine.runner.submit(tasks_of(a_handler(async_handler, "async"), 3))
    mine.runner.submit(tasks_of(a_handler(handler, "gated", concurrency=1), 3))
    mine.collect(9)
    assert seen == ["the runner"] * 9


# Async


def test_async_handlers_share_one_loop_up_to_their_bound(loop: Callable[..., Loop]) -> None:
    most, now, loops = 0, 0, set[int]()

    async def handler(record: Record) -> Retry:
        nonlocal most, now
        loops.add(id(asyncio.get_running_loop()))
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return Retry()

    mine = loop()
    mine.runner.submit(tasks_of(a_handler(handler, concurrency=3), 20))
    assert {reason(each) for each in mine.collect(20)} == {"asked for a retry"}
    assert (most, len(loops)) == (3, 1)
    mine.runner.submit(tasks_of(a_handler(handler, "unbounded"), 100))
    mine.collect(100)
    assert most == 64


def test_a_sync_function_may_return_what_is_to_be_awaited(loop: Callable[..., Loop]) -> None:
    async def later(record: Record) -> Cancel:
        await asyncio.sleep(0)
        return Cancel("in the end")

    mine = loop()
    mine.runner.submit(tasks_of(a_handler(lambda record: later(record)), 1))
    mine.runner.submit(tasks_of(a_handler(lambda record: later(record), "bounded", concurrency=1), 1))
    assert [reason(each) for each in mine.collect(2)] == ["in the end"] * 2


# Limiters


def test_a_bound_holds_for_its_handler_and_delays_no_other(loop: Callable[..., Loop]) -> None:
    go, inside = threading.Event(), threading.Semaphore(0)

    def handler(record: Record) -> None:
        inside.release()
        go.wait(WAIT)

    mine = loop(threads=4)
    mine.runner.submit(tasks_of(a_handler(handler, "bounded", concurrency=2), 6))
    mine.runner.submit(tasks_of(a_handler(lambda record: None, "free"), 50))
    mine.collect(50)
    assert inside.acquire(timeout=WAIT)
    assert inside.acquire(timeout=WAIT)
    assert not inside.acquire(blocking=False)
    assert (mine.runner.waiting(), mine.runner.running()) == (4, 2)
    go.set()
    mine.collect(6)


def test_a_rate_lets_no_more_begin_than_it_says(loop: Callable[..., Loop]) -> None:
    clock = FakeClock()
    mine = loop(clock=clock)
    mine.runner.submit(tasks_of(a_handler(lambda record: None, rate=2.0), 4))
    mine.collect(1)
    for _ in range(3):
        mine.runner.look()
        assert mine.runner.finished() == []
        clock.advance(timedelta(seconds=0.5))
        mine.runner.look()
        mine.collect(1)


def test_the_watch_keeps_the_rate_by_itself(loop: Callable[..., Loop]) -> None:
    mine = loop()
    mine.runner.submit(tasks_of(a_handler(lambda record: None, rate=100.0), 13))
    mine.collect(13)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_watch_comes_back_to_a_rate_that_has_run_dry(
    loop: Callable[..., Loop], monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """One call goes on for long, so it is not its end that says when the next may begin."""
    monkeypatch.setattr("penstock.worker.calling.runner._LONGEST_LOOK_SECONDS", 3600.0)
    begun, go = threading.Semaphore(0), threading.Event()

    def first_is_slow(record: Record) -> None:
        begun.release()
        assert record.id != "r-0" or go.wait(WAIT)

    async def first_is_slow_too(record: Record) -> None:
        begun.release()
        while record.id == "r-0" and not go.is_set():
            await asyncio.sleep(0.01)

    mine = loop()
    mine.runner.submit(tasks_of(a_handler(lambda record: go.wait(WAIT) and None, timeout=None)))
    wait_until(lambda: not mine.runner._bell.is_set(), "the watch sleeps, and not until something comes")
    slow = a_handler(first_is_slow_too if is_async else first_is_slow, "rated", rate=5.0, timeout=None)
    mine.runner.submit([HandlerTask(TaskPlace(0, at), f"k-{at}", slow, a_record(id=f"r-{at}"), 0) for at in range(3)])
    for _ in range(3):
        assert begun.acquire(timeout=WAIT)
    go.set()
    mine.collect(4)


def test_a_share_of_the_rate_is_all_that_begins_here(loop: Callable[..., Loop]) -> None:
    clock = FakeClock()
    mine = loop(clock=clock)
    mine.runner.change_share("g", "events", 0.25)
    mine.runner.change_share("other", "events", 1.0)
    mine.runner.submit(tasks_of(a_handler(lambda record: None, rate=4.0), 9))

    def look(seconds: float, many: int) -> None:
        clock.advance(timedelta(seconds=seconds))
        mine.runner.look()
        mine.collect(many)
        mine.runner.look()
        assert mine.runner.finished() == []

    look(0.5, 0)
    look(0.25, 1)  # it began with its share of a token
    look(1.0, 1)
    mine.runner.change_share("g", "events", 1.0)
    look(0.0, 0)  # a larger share brings nothing at once
    look(0.25, 1)
    look(0.25, 1)
    mine.runner.change_share("g", "events", 0.0)
    look(3600.0, 0)
    mine.runner.change_share("g", "events", 0.5)
    look(0.0, 0)
    look(0.5, 1)


def test_records_of_a_failed_batch_keep_the_rate_too(loop: Callable[..., Loop]) -> None:
    clock, sizes = FakeClock(), list[int]()

    def fails(records: list[Record]) -> None:
        sizes.append(len(records))
        raise ValueError("no")

    mine = loop(clock=clock)
    mine.runner.submit(tasks_of(a_handler(fails, batch=3, rate=1.0), 3))
    wait_until(lambda: sizes == [3], "the batch has failed")
    for many in range(3):
        mine.runner.look()
        assert len(sizes) == 1 + many
        clock.advance(timedelta(seconds=1))
        mine.runner.look()
        mine.collect(1)
    assert sizes == [3, 1, 1, 1]


def test_a_member_that_may_not_start_starts_nothing(loop: Callable[..., Loop]) -> None:
    live = threading.Event()
    ran: list[Record] = []

    async def async_handler(record: Record) -> None:
        ran.append(record)

    mine = loop(may_start=live.is_set, clock=FakeClock())
    mine.runner.submit(tasks_of(a_handler(ran.append), 3))
    mine.runner.submit(tasks_of(a_handler(ran.append, "bounded", concurrency=1), 3))
    mine.runner.submit(tasks_of(a_handler(async_handler, "async"), 3))
    mine.runner.look()
    assert not ran
    live.set()
    mine.runner.look()
    mine.collect(9)


def test_a_lease_that_comes_back_while_a_turn_is_given_back_is_not_missed(
    loop: Callable[..., Loop], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = threading.Event()
    give_back = Limiter.give_back

    def stalled(limiter: Limiter) -> None:
        live.set()
        mine.runner.look()
        give_back(limiter)

    monkeypatch.setattr(Limiter, "give_back", stalled)
    mine = loop(may_start=live.is_set, clock=FakeClock())
    mine.runner.submit(tasks_of(a_handler(lambda record: None, "bounded", concurrency=1), 2))
    assert mine.collect(2) == [Passed()] * 2


# Batches


@dataclass
class Placed:
    """A typed event."""

    order_id: str


def test_a_batch_is_what_is_queued_up_to_its_size(loop: Callable[..., Loop]) -> None:
    sizes: list[int] = []
    mine = loop(threads=1)
    handler = a_handler(lambda records: sizes.append(len(records)), batch=10)
    mine.runner.submit(tasks_of(handler, 25))
    assert mine.collect(25) == [Passed()] * 25
    assert sizes == [10, 10, 5]


def test_a_batch_may_have_an_outcome_for_each_record(loop: Callable[..., Loop]) -> None:
    mine = loop()
    handler = a_handler(lambda records: [None, Retry(), Cancel("bad"), 7, Done()], batch=5)
    mine.runner.submit(tasks_of(handler, 5))
    first, again, dead, wrong, last = mine.collect(5)
    assert (first, last) == (Passed(), Passed())
    assert (reason(again), reason(dead)) == ("asked for a retry", "bad")
    assert "InvalidOutcome: outcome 7" in reason(wrong)


@pytest.mark.parametrize("answer", [[], [None], "ab", Retry(), 5], ids=repr)
def test_an_answer_that_does_not_fit_the_batch_fails_all_of_it_once(loop: Callable[..., Loop], answer: Any) -> None:
    calls: list[int] = []

    def handler(records: list[Record]) -> Any:
        calls.append(len(records))
        return answer

    mine = loop()
    mine.runner.submit(tasks_of(a_handler(handler, batch=5), 2))
    assert all("one outcome for each record, here 2" in reason(each) for each in mine.collect(2))
    assert calls == [2]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_batch_that_fails_is_called_again_one_by_one(loop: Callable[..., Loop], is_async: bool) -> None:
    calls: list[int] = []

    def handler(records: list[Record]) -> None:
        calls.append(len(records))
        if any(record.key == "poison" for record in records):
            raise LookupError("poisoned")

    async def async_handler(records: list[Record]) -> None:
        handler(records)

    mine = loop()
    tasks = tasks_of(a_handler(async_handler if is_async else handler, batch=10), 5)
    poison = HandlerTask(TaskPlace(0, 2), "k-2", tasks[2].handler, a_record(key="poison"), 0)
    mine.runner.submit([*tasks[:2], poison, *tasks[3:]])
    verdicts = mine.collect(5)
    assert [type(each) for each in verdicts] == [Passed, Passed, Parked, Passed, Passed]
    assert verdicts[2] == Parked(verdicts[2].due_ms, 1, "LookupError: poisoned")
    assert sorted(calls) == [1, 1, 1, 1, 1, 5]


def test_what_cannot_be_decoded_leaves_its_batch(loop: Callable[..., Loop]) -> None:
    given: list[Any] = []

    def keeps(events: list[Placed], records: list[Record]) -> None:
        given.append((events, records))

    types = EventTypes()
    types.register(Placed, "order.placed")
    handler = a_handler(keeps, batch=10)
    handler.binding.resolve(types)
    good = [HandlerTask(TaskPlace(0, at), "k", handler, a_record(data=b'{"order_id": "x"}'), 0) for at in (0, 2)]
    bad = HandlerTask(TaskPlace(0, 1), "k", handler, a_record(data=b"{}"), 0)
    mine = loop()
    mine.runner.submit([good[0], bad, good[1]])
    first, dead, last = mine.collect(3)
    assert (first, last) == (Passed(), Passed())
    assert isinstance(dead, Dead)
    assert (dead.failures, dead.hold) == (1, False)
    assert given == [([Placed("x"), Placed("x")], [good[0].record, good[1].record])]


# Fallbacks


@pytest.mark.parametrize("handler_async", [False, True])
@pytest.mark.parametrize("fallback_async", [False, True])
def test_a_fallback_of_either_kind_has_the_last_try(
    loop: Callable[..., Loop], handler_async: bool, fallback_async: bool
) -> None:
    given: list[str] = []

    def fails(record: Record) -> None:
        raise LookupError("gone")

    async def fails_async(record: Record) -> None:
        raise LookupError("gone")

    def fallback(record: Record, reason: str) -> None:
        given.append(reason)

    async def fallback_later(record: Record, reason: str) -> None:
        given.append(reason)

    handler = a_handler(
        fails_async if handler_async else fails,
        fallback=fallback_later if fallback_async else fallback,
        rules=Rules(Fixed(max_retries=0)),
    )
    mine = loop()
    mine.runner.submit(tasks_of(handler, 1))
    assert mine.collect(1) == [Passed(True, 1, "LookupError: gone")]
    assert given == ["LookupError: gone"]


def test_a_fallback_that_would_end_the_thread_leaves_a_dead_letter(loop: Callable[..., Loop]) -> None:
    def leaves(record: Record) -> None:
        raise SystemExit(1)

    mine = loop(threads=1)
    handler = a_handler(leaves, fallback=leaves, rules=Rules(Fixed(max_retries=0)))
    mine.runner.submit(tasks_of(handler, 2))
    assert [type(each) for each in mine.collect(2)] == [Dead, Dead]


# Timeouts


@pytest.mark.parametrize("gated", [None, 1])
def test_a_sync_handler_over_its_time_is_left_behind_and_replaced(
    loop: Callable[..., Loop], caplog: pytest.LogCaptureFixture, gated: int | None
) -> None:
    clock, go, begun = FakeClock(), threading.Event(), threading.Event()
    ended: list[threading.Thread] = []

    def hangs(record: Record) -> None:
        ended.append(threading.current_thread())
        begun.set()
        go.wait(WAIT)

    mine = loop(threads=1, clock=clock)
    handler = a_handler(hangs, timeout=60.0, concurrency=gated)
    (hung,) = tasks_of(handler)
    mine.runner.submit([hung])
    assert begun.wait(WAIT)
    mine.runner.look()
    assert mine.runner.finished() == []
    clock.advance(timedelta(seconds=60))
    mine.runner.look()
    (late,) = mine.collect(1)
    assert isinstance(late, Parked)
    assert (late.failures, "HandlerTimeout" in late.reason) == (1, True)
    mine.runner.submit(tasks_of(a_handler(lambda record: None, "other"), 3))
    mine.collect(3)  # by another thread
    with caplog.at_level(logging.WARNING):
        go.set()
        ended[0].join(WAIT)
    assert mine.runner.finished() == []
    assert any("shop.mail" in line and hung.record.id in line and "dropped" in line for line in caplog.messages)


@pytest.mark.parametrize("gated", [None, 4])
def test_a_group_whose_calls_hang_is_given_up_and_the_others_go_on(
    loop: Callable[..., Loop], gated: int | None
) -> None:
    clock, go = FakeClock(), threading.Event()
    begun = threading.Semaphore(0)

    def hangs(record: Record) -> None:
        begun.release()
        go.wait(WAIT)

    hung = HungCalls(threads=1, clock=clock)
    mine = loop(threads=1, clock=clock, hung=hung)
    mine.runner.submit(tasks_of(a_handler(hangs, timeout=1.0, concurrency=gated), 10))
    for _ in range(hung.bound):
        assert begun.acquire(timeout=WAIT)
        clock.advance(timedelta(seconds=1))
        mine.runner.look()
    ended = mine.collect(10)
    assert [type(each) for each in ended] == [Parked] * 4 + [type(None)] * 6
    assert hung.given_up == {"g"}
    mine.runner.submit(tasks_of(a_handler(hangs, timeout=1.0, concurrency=gated), 3))
    assert mine.collect(3) == [None, None, None]  # not begun: others may do it
    mine.runner.submit(tasks_of(a_handler(lambda record: None, "other", group="another"), 100))
    assert mine.collect(100) == [Passed()] * 100
    assert not begun.acquire(blocking=False)
    go.set()
    wait_until(lambda: not hung.given_up, "it is served again")
    mine.runner.submit(tasks_of(a_handler(lambda record: None, concurrency=gated), 3))
    assert mine.collect(3) == [Passed()] * 3


def test_async_calls_of_a_group_that_is_given_up_are_handed_back(loop: Callable[..., Loop]) -> None:
    async def handle(record: Record) -> None:
        raise AssertionError("it is called")

    hung = HungCalls(threads=1, clock=SYSTEM)
    mine = loop(hung=hung)
    handler = a_handler(handle, concurrency=2)
    for call in range(hung.bound):
        hung.begin(call, handler, 1.0)
    mine.runner.submit(tasks_of(handler, 10))
    assert mine.collect(10) == [None] * 10


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_async_handler_over_its_time_is_cancelled(loop: Callable[..., Loop], stubborn: bool) -> None:
    cancelled = threading.Event()

    async def hangs(record: Record) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            if not stubborn:
                raise

    mine = loop()
    mine.runner.submit(tasks_of(a_handler(hangs, timeout=0.02), 1))
    (late,) = mine.collect(1)  # the watch sees it by itself
    assert cancelled.wait(WAIT)
    assert isinstance(late, Parked)
    assert "HandlerTimeout: handler shop.mail did not finish within 0.02 s" in late.reason


def test_an_async_handler_that_is_over_its_time_before_it_has_begun_is_cancelled_too(
    loop: Callable[..., Loop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look while the loop is about to begin the call must not take it for the call of a thread."""
    clock, cancelled = FakeClock(), threading.Event()

    async def hangs(record: Record) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    mine = loop(threads=1, clock=clock)
    task = mine.runner._loop.task

    def stalled(*args: Any) -> Any:
        clock.advance(timedelta(seconds=1))
        mine.runner.look()
        return task(*args)

    monkeypatch.setattr(mine.runner._loop, "task", stalled)
    mine.runner.submit(tasks_of(a_handler(hangs, timeout=1.0), 1))
    assert "HandlerTimeout" in reason(mine.collect(1)[0])
    assert cancelled.wait(WAIT)


def test_calls_that_others_cancel_before_they_begin_are_handed_back(loop: Callable[..., Loop]) -> None:
    """As by a library that cancels all tasks of the loop to clean up."""

    async def cancels_all(record: Record) -> None:
        for task in asyncio.all_tasks():
            task.cancel()

    async def passes(record: Record) -> None:
        await asyncio.sleep(0)

    mine = loop()
    mine.runner.submit(tasks_of(a_handler(cancels_all, "shop.clean", concurrency=8), 8))
    assert None in mine.collect(8)  # never begun: it may be called again
    mine.runner.submit(tasks_of(a_handler(passes), 100))  # and none of its places is lost
    assert mine.collect(100) == [Passed()] * 100
    assert (mine.runner.waiting(), mine.runner.running()) == (0, 0)


def test_an_async_handler_that_will_not_be_cancelled_is_given_up(loop: Callable[..., Loop]) -> None:
    clock, go, begun = FakeClock(), threading.Event(), threading.Event()

    async def blocks(record: Record) -> None:
        begun.set()
        go.wait(WAIT)  # it blocks the loop

    mine = loop(clock=clock)
    mine.runner.submit(tasks_of(a_handler(blocks, timeout=1.0), 1))
    assert begun.wait(WAIT)
    for seconds in (1, 5):
        clock.advance(timedelta(seconds=seconds))
        mine.runner.look()
    assert "HandlerTimeout" in reason(mine.collect(1)[0])
    go.set()


def test_a_batch_over_its_time_is_called_again_one_by_one(loop: Callable[..., Loop]) -> None:
    clock, go, begun = FakeClock(), threading.Event(), threading.Event()

    def handler(records: list[Record]) -> None:
        if len(records) > 1:
            begun.set()
            go.wait(WAIT)

    mine = loop(threads=1, clock=clock)
    mine.runner.submit(tasks_of(a_handler(handler, batch=5, timeout=1.0), 3))
    assert begun.wait(WAIT)
    clock.advance(timedelta(seconds=1))
    mine.runner.look()
    assert mine.collect(3) == [Passed()] * 3
    go.set()


# Taking back and closing


def test_what_has_not_begun_can_be_taken_back(loop: Callable[..., Loop]) -> None:
    go, begun = threading.Event(), threading.Event()

    def handler(record: Record) -> None:
        begun.set()
        go.wait(WAIT)

    mine = loop(threads=1)
    plain, gated = a_handler(handler), a_handler(lambda record: None, "gated", concurrency=1)
    tasks = tasks_of(plain, 5)
    mine.runner.submit(tasks)
    assert begun.wait(WAIT)
    mine.runner.submit(tasks_of(gated, 4))
    assert (mine.runner.waiting(), mine.runner.running()) == (8, 1)
    even = mine.runner.take_back(lambda task: task.place.offset % 2 == 0)
    assert sorted((task.handler.id, task.place.offset) for task in even) == [
        ("gated", 0),
        ("gated", 2),
        ("shop.mail", 2),
        ("shop.mail", 4),
    ]
    assert (mine.runner.waiting(), mine.runner.running()) == (4, 1)
    assert len(mine.runner.take_back()) == 4
    assert (mine.runner.waiting(), mine.runner.running()) == (0, 1)
    go.set()
    mine.collect(1)
    mine.runner.submit(tasks_of(gated, 2))  # the limiter still grants
    mine.collect(2)


def test_close_waits_for_what_runs_and_starts_nothing_more(loop: Callable[..., Loop]) -> None:
    go, begun = threading.Event(), threading.Event()

    def handler(record: Record) -> None:
        begun.set()
        go.wait(WAIT)

    mine = loop(threads=1)
    tasks = tasks_of(a_handler(handler), 3)
    mine.runner.submit(tasks)
    assert begun.wait(WAIT)
    threading.Timer(0.05, go.set).start()
    assert mine.runner.close(WAIT) == []
    assert mine.runner.finished() == [(tasks[0], Passed())]
    assert mine.runner.take_back() == tasks[1:]
    assert (mine.runner.waiting(), mine.runner.running()) == (0, 0)


def test_close_returns_what_still_runs_and_hears_it_no_more(loop: Callable[..., Loop]) -> None:
    go, begun = threading.Event(), threading.Semaphore(0)
    threads: list[threading.Thread] = []
    cancelled = threading.Event()

    def handler(record: Record) -> None:
        threads.append(threading.current_thread())
        begun.release()
        go.wait(WAIT)

    async def async_handler(record: Record) -> None:
        begun.release()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    mine = loop(threads=2)
    (one,), (two,) = tasks_of(a_handler(handler)), tasks_of(a_handler(handler, "bounded", concurrency=1))
    (three,) = tasks_of(a_handler(async_handler, "async"))
    mine.runner.submit([one, two, three])
    for _ in range(3):
        assert begun.acquire(timeout=WAIT)
    left = mine.runner.close(0.0)
    assert sorted(task.handler.id for task in left) == ["async", "bounded", "shop.mail"]
    assert cancelled.wait(WAIT)
    go.set()
    for thread in threads:
        thread.join(WAIT)
    assert mine.runner.finished() == []
    assert mine.runner.running() == 0


def test_close_may_come_twice_and_before_any_work(loop: Callable[..., Loop]) -> None:
    mine = loop()
    assert mine.runner.close(0.0) == []
    assert mine.runner.close(1.0) == []


def test_what_was_done_is_counted_by_handler(loop: Callable[..., Loop]) -> None:
    answers = iter([None, None, Retry(), Cancel("bad")])
    mine = loop(threads=1)
    mine.runner.submit(tasks_of(a_handler(lambda record: next(answers), "counted"), 4))
    mine.collect(4)
    labels = ("g", "counted")
    found = [series.values()[labels] for series in (metrics.DELIVERED, metrics.PARKED, metrics.DEAD)]
    assert found == [2, 1, 1]
    assert sum(metrics.HANDLER_SECONDS.values()[labels].counts) == 4


def test_the_threads_are_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ProcessingSettings.load().concurrency == 8
    monkeypatch.setenv("PENSTOCK_PROCESSING_CONCURRENCY", "many")
    with pytest.raises(WrongSettingType):
        ProcessingSettings.load()


def test_every_task_comes_out_once_under_load(loop: Callable[..., Loop]) -> None:
    async def async_handler(record: Record) -> None:
        await asyncio.sleep(0)

    handlers = [
        a_handler(lambda record: None, "plain"),
        a_handler(lambda record: None, "bounded", concurrency=2),
        a_handler(lambda records: None, "batch", batch=7),
        a_handler(async_handler, "async", concurrency=5),
    ]
    mine = loop(threads=4)
    sent: list[HandlerTask] = []
    back: list[HandlerTask] = []
    for number in range(200):
        tasks = [HandlerTask(TaskPlace(number, at), "k", handlers[at % 4], a_record(), 0) for at in range(20)]
        sent += tasks
        mine.runner.submit(tasks)
        if number % 50 == 49:
            back += mine.runner.take_back(lambda task: task.place.offset == 3)
        mine.results += mine.runner.finished()
    while len(mine.results) + len(back) < len(sent):
        assert mine.woken.wait(WAIT)
        mine.woken.clear()
        mine.results += mine.runner.finished()
    assert sorted(task.place for task, _ in mine.results) + sorted(task.place for task in back) != []
    assert sorted([task.place for task, _ in mine.results] + [task.place for task in back]) == sorted(
        task.place for task in sent
    )
    assert (mine.runner.waiting(), mine.runner.running()) == (0, 0)


def a_run(handler: Handler, many: int) -> HandlerTask:
    """Return the first of so many tasks that follow each other."""
    task: HandlerTask | None = None
    for more, at in enumerate(reversed(range(many))):
        task = HandlerTask(TaskPlace(0, at), "k", handler, a_record(id=f"r-{at}"), 0, task, more)
    assert task is not None
    return task


def test_a_run_is_worked_one_after_the_other_while_others_go_on(loop: Callable[..., Loop]) -> None:
    running, most, order = [0], [0], list[str]()

    def handler(record: Record) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        order.append(record.id)
        running[0] -= 1

    mine = loop(threads=4)
    mine.runner.submit([a_run(a_handler(handler), 50)])
    assert mine.collect(50) == [Passed()] * 50
    assert (most, order) == ([1], [f"r-{at}" for at in range(50)])
    assert (mine.runner.waiting(), mine.runner.running()) == (0, 0)


def test_those_behind_a_failure_in_a_run_are_not_begun(loop: Callable[..., Loop]) -> None:
    seen: list[str] = []

    def handler(record: Record) -> None:
        seen.append(record.id)
        if record.id == "r-2":
            raise ValueError("no")

    mine = loop(threads=2)
    mine.runner.submit([a_run(a_handler(handler), 5)])
    first, second, third, *rest = mine.collect(5)
    assert (first, second, rest) == (Passed(), Passed(), [None, None])
    assert reason(third) == "ValueError: no"
    assert seen == ["r-0", "r-1", "r-2"]


def test_those_behind_a_failure_in_a_run_do_not_wait_for_its_fallback(loop: Callable[..., Loop]) -> None:
    go = threading.Event()

    def fails(record: Record) -> None:
        raise ValueError("no")

    mine, rules = loop(threads=1), Rules(Fixed(max_retries=0))
    handler = a_handler(fails, fallback=lambda record: go.wait(WAIT) and None, rules=rules)
    mine.runner.submit([a_run(handler, 3)])
    assert mine.collect(2) == [None, None]
    go.set()
    assert len(mine.collect(1)) == 1


def test_those_behind_a_timeout_in_a_run_are_not_begun(loop: Callable[..., Loop]) -> None:
    go = threading.Event()
    mine = loop(threads=1)
    mine.runner.submit([a_run(a_handler(lambda record: go.wait(WAIT), timeout=0.05), 3)])
    first, *rest = mine.collect(3)
    assert "did not finish within" in reason(first)
    assert rest == [None, None]
    go.set()


def test_a_run_that_waits_is_taken_back_whole_and_one_that_runs_as_far_as_it_has_not_begun(
    loop: Callable[..., Loop],
) -> None:
    begun, go = threading.Event(), threading.Event()

    def handler(record: Record) -> None:
        begun.set()
        go.wait(WAIT)

    mine, doer = loop(threads=1), a_handler(handler)
    mine.runner.submit([a_run(doer, 3), a_run(doer, 4)])
    assert begun.wait(WAIT)
    assert (mine.runner.waiting(), mine.runner.running()) == (4, 3)
    assert len(mine.runner.take_back()) == 4
    left = mine.runner.close(0.0)
    assert [task.place.offset for task in left] == [0]
    assert [verdict for _, verdict in mine.runner.finished()] == [None, None]
    go.set()


def test_a_run_held_back_without_a_lease_goes_on_where_it_was(loop: Callable[..., Loop]) -> None:
    live, seen = threading.Event(), list[str]()
    live.set()

    def handler(record: Record) -> None:
        seen.append(record.id)
        if len(seen) == 2:
            live.clear()

    mine = loop(threads=1, may_start=live.is_set)
    mine.runner.submit([a_run(a_handler(handler), 4)])
    assert mine.collect(2) == [Passed()] * 2
    live.set()
    mine.runner.look()
    assert mine.collect(2) == [Passed()] * 2
    assert seen == ["r-0", "r-1", "r-2", "r-3"]
