"""From what a handler does to what becomes of its record, and what the log says of it."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from penstock import Cancel, Custom, Done, Exponential, Fixed, Linear, PowerOfTwo, Retry, RetryPolicy, Snooze, metrics
from penstock.clock import SYSTEM
from penstock.delivery.verdict import Dead, OnExhausted, OnFailure, Parked, Passed, Rules, Verdict
from penstock.model.record import Record
from penstock.redaction import ErrorText
from penstock.testing import FakeClock
from penstock.worker.calling.loop import InlineCalls
from penstock.worker.calling.verdicts import attempt
from penstock.worker.handler import Handler
from tests.suites.records import a_record


@pytest.fixture
def calls() -> Iterator[InlineCalls]:
    """Give the calls of one thread."""
    with InlineCalls() as made:
        yield made


def a_handler(function: Callable[..., Any], rules: Rules | None = None, **options: Any) -> Handler:
    """Return a handler with what a test leaves out filled in."""
    rules = rules or Rules(Fixed(delay=5, max_retries=1))
    return Handler(function=function, group="g", id="shop.mail", rules=rules, **options)


def raising(error: BaseException) -> Callable[[Record], None]:
    """Return a function that fails."""

    def fails(record: Record) -> None:
        raise error

    return fails


def answering(answer: Any) -> Callable[[Record], Any]:
    """Return a function with this answer."""
    return lambda record: answer


def tried(calls: InlineCalls, handler: Handler, record: Record | None = None, failures: int = 0) -> Verdict:
    """Return the verdict of one attempt, at a known time."""
    return attempt(calls, handler, record or a_record(), failures=failures, clock=FakeClock())


NOW_MS = FakeClock().now_ms()


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, Passed()),
        (Done(), Passed()),
        (Done, Passed()),
        (Retry(), Parked(NOW_MS + 5000, 1, "asked for a retry")),
        (Retry(timedelta(seconds=1)), Parked(NOW_MS + 1000, 1, "asked for a retry")),
        (Snooze(timedelta(seconds=9)), Parked(NOW_MS + 9000, 0, "snoozed", snoozed=True)),
        (Cancel("no such order"), Dead(0, "no such order", hold=False)),
    ],
    ids=repr,
)
def test_an_answer_is_a_verdict(calls: InlineCalls, answer: Any, verdict: Verdict) -> None:
    assert tried(calls, a_handler(answering(answer))) == verdict


def test_an_answer_that_is_none_is_a_failure(calls: InlineCalls) -> None:
    verdict = tried(calls, a_handler(answering(True)))
    assert isinstance(verdict, Parked)
    assert "InvalidOutcome" in verdict.reason


def test_an_async_handler_is_awaited_and_cancelled_when_it_takes_too_long(calls: InlineCalls) -> None:
    async def quick(record: Record) -> Retry:
        await asyncio.sleep(0)
        return Retry()

    async def endless(record: Record) -> None:
        await asyncio.sleep(3600)

    async def its_own(record: Record) -> None:
        raise TimeoutError("of the handler itself")

    assert isinstance(tried(calls, a_handler(quick)), Parked)
    late = tried(calls, a_handler(endless, timeout=0.01))
    assert isinstance(late, Parked)
    assert "HandlerTimeout: handler shop.mail did not finish within 0.01 s" in late.reason
    own = tried(calls, a_handler(its_own, timeout=600))
    assert isinstance(own, Parked)
    assert own.reason == "TimeoutError: of the handler itself"


def test_an_async_handler_that_cancels_itself_has_failed(calls: InlineCalls) -> None:
    async def cancels(record: Record) -> None:
        raise asyncio.CancelledError

    assert isinstance(tried(calls, a_handler(cancels)), Parked)


def test_ctrl_c_passes_through_to_the_caller(calls: InlineCalls) -> None:
    with pytest.raises(KeyboardInterrupt):
        tried(calls, a_handler(raising(KeyboardInterrupt())))


def test_a_batch_handler_is_given_a_batch_of_one(calls: InlineCalls) -> None:
    given: list[Any] = []

    def many(records: list[Record]) -> list[Any]:
        given.append(records)
        return [Cancel("all of it")]

    record = a_record()
    assert tried(calls, a_handler(many, batch=10), record) == Dead(0, "all of it", hold=False)
    assert given == [[record]]


@pytest.mark.parametrize("on_exhausted", OnExhausted)
def test_what_cannot_be_decoded_is_dead_at_once_and_its_key_goes_on(
    calls: InlineCalls, on_exhausted: OnExhausted
) -> None:
    """D18: nobody could mend it, so its key waits for nobody."""
    rules, counted = Rules(Fixed(max_retries=9), on_exhausted=on_exhausted), metrics.UNDECODABLE.values()
    handler = a_handler(lambda record: record.value["x"], rules)
    verdict = tried(calls, handler, a_record(data=b"{no json"))
    assert isinstance(verdict, Dead)
    assert (verdict.failures, verdict.hold) == (1, False)
    labels = (handler.group, handler.id)
    assert metrics.UNDECODABLE.values()[labels] == counted.get(labels, 0) + 1
    assert "Undecodable: a JSON value cannot be decoded" in verdict.reason


# The fallback


def test_a_fallback_has_the_last_try_and_the_reason(calls: InlineCalls) -> None:
    given: list[Any] = []
    handler = a_handler(raising(LookupError("gone")), fallback=lambda record, reason: given.append((record, reason)))
    record = a_record()
    assert isinstance(tried(calls, handler, record), Parked)
    assert given == []
    assert tried(calls, handler, record, failures=1) == Passed(True, 2, "LookupError: gone")
    ((last, reason),) = given
    assert (last.id, last.failures, reason) == (record.id, 2, "LookupError: gone")


def test_a_fallback_may_be_async_and_take_the_record_alone(calls: InlineCalls) -> None:
    given: list[Record] = []

    async def fallback(record: Record) -> None:
        given.append(record)

    record = a_record()
    handler = a_handler(answering(Retry()), fallback=fallback)
    assert tried(calls, handler, record, failures=1) == Passed(True, 2, "asked for a retry, and none is left")
    assert [(each.id, each.failures) for each in given] == [(record.id, 2)]


@pytest.mark.parametrize("fallback", [raising(OSError("worse")), answering(Retry()), answering(5)])
def test_a_fallback_that_fails_leaves_the_first_verdict(
    calls: InlineCalls, caplog: pytest.LogCaptureFixture, fallback: Callable[[Record], Any]
) -> None:
    verdict = tried(calls, a_handler(raising(LookupError("gone")), fallback=fallback), failures=1)
    assert verdict == Dead(2, "LookupError: gone", hold=True)
    assert "so did its fallback; it is now a dead letter" in caplog.messages[-1]


def test_a_handler_that_gives_up_by_itself_needs_no_fallback(calls: InlineCalls) -> None:
    asked: list[Record] = []
    handler = a_handler(answering(Cancel("no such order")), fallback=asked.append)
    assert tried(calls, handler) == Dead(0, "no such order", hold=False)
    assert asked == []


# The log


def failed_twice() -> Exception:
    """Return an error with a chain of causes."""
    try:
        try:
            raise OSError("the cable is out")
        except OSError as cause:
            raise LookupError("no mail server") from cause
    except LookupError as error:
        return error


def test_log_and_reason_hold_the_whole_chain_root_cause_first(
    calls: InlineCalls, caplog: pytest.LogCaptureFixture
) -> None:
    record = a_record(key="o-7", attempt=1)
    chain = "OSError: the cable is out <- LookupError: no mail server"
    handler = a_handler(raising(failed_twice()))
    parked = tried(calls, handler, record)
    dead = tried(calls, handler, record, failures=1)
    assert isinstance(parked, Parked)
    assert isinstance(dead, Dead)
    assert parked.reason == dead.reason == chain
    first, last = caplog.records
    for line in (first, last):
        for part in ("shop.mail", "order.placed", record.id, "key 'o-7'", "attempt 1", chain):
            assert part in line.getMessage()
    assert (first.levelno, first.exc_info) == (logging.WARNING, None)
    assert last.levelno == logging.ERROR
    assert last.exc_info is not None
    assert "the cable is out" in caplog.text.split("dead letter")[1]  # the trace, with its cause


@pytest.mark.parametrize(
    ("policy", "attempt", "words"),
    [
        (Exponential(), 2, "attempt 2 of 4, failed: LookupError: gone; it is tried again in 4 s"),
        (Fixed(0.25, max_retries=9), 1, "attempt 1 of 10, failed: LookupError: gone; it is tried again in 250 ms"),
        (Fixed(90, max_retries=3), 1, "attempt 1 of 4, failed: LookupError: gone; it is tried again in 90 s"),
        (Fixed(300, max_retries=3), 1, "attempt 1 of 4, failed: LookupError: gone; it is tried again in 5 min"),
        (Fixed(9000, max_retries=3), 1, "attempt 1 of 4, failed: LookupError: gone; it is tried again in 2.5 h"),
        (Fixed(max_retries=0), 1, "attempt 1 of 1, failed: LookupError: gone; it is now a dead letter"),
    ],
)
def test_a_failure_says_which_attempt_of_how_many_it_was_and_when_the_next_is(
    calls: InlineCalls, caplog: pytest.LogCaptureFixture, policy: RetryPolicy, attempt: int, words: str
) -> None:
    handler = a_handler(raising(LookupError("gone")), Rules(policy))
    tried(calls, handler, a_record(attempt=attempt), failures=attempt - 1)
    assert caplog.messages[-1].endswith(words)


def test_what_a_line_is_about_stands_on_it_as_fields(calls: InlineCalls, caplog: pytest.LogCaptureFixture) -> None:
    record = a_record(key="o-7", topic="orders", partition=3, offset=41, attempt=1)
    handler = a_handler(raising(LookupError("gone")))
    tried(calls, handler, record)
    tried(calls, handler, record, failures=1)
    about = {"group": "g", "handler": "shop.mail", "topic": "orders", "partition": 3, "offset": 41}
    about |= {"key": "o-7", "id": record.id, "type": "order.placed", "attempt": 1, "attempts": 2}
    for line in caplog.records:
        assert {name: getattr(line, name) for name in about} == about
        assert getattr(line, "error") == "LookupError: gone"  # noqa: B009 (a field, for mypy)
    assert getattr(caplog.records[0], "retry_seconds") == 5.0  # noqa: B009


@pytest.mark.parametrize(
    ("how", "reason", "traced"),
    [
        (ErrorText.REDACTED, "ValidationError: at `$.colour` <- LookupError: its own words", False),
        (ErrorText.FULL, "ValidationError: Invalid enum value 'canary' - at `$.colour`", True),
        (ErrorText.TYPE, "ValidationError <- LookupError", False),
    ],
)
def test_the_setting_says_how_much_of_an_error_is_told(
    calls: InlineCalls, caplog: pytest.LogCaptureFixture, how: ErrorText, reason: str, traced: bool
) -> None:
    inner, own = "Invalid enum value 'canary' - at `$.colour`", "its own words"

    def fails(record: Record) -> None:
        try:
            raise msgspec.ValidationError(inner)
        except ValueError as error:
            raise LookupError(own) from error

    verdict = tried(calls, a_handler(fails, Rules(Fixed(max_retries=0), error_text=how)))
    assert isinstance(verdict, Dead)
    assert verdict.reason.startswith(reason)
    assert ("canary" in caplog.text, "its own words" in caplog.text) == (traced, how is not ErrorText.TYPE)


def test_a_predicate_that_fails_beside_an_error_shows_nothing_of_its_values(
    calls: InlineCalls, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Fixed(retry_if=lambda error: 1 / 0 > 0)
    tried(calls, a_handler(raising(msgspec.ValidationError("it is canary")), Rules(policy)))
    assert "ZeroDivisionError" in caplog.text
    assert "canary" not in caplog.text


def test_the_reason_keeps_its_root_cause_within_a_thousand_characters(calls: InlineCalls) -> None:
    error = LookupError("x" * 5000)
    error.__cause__ = OSError("the root")
    verdict = tried(calls, a_handler(raising(error)), failures=1)
    assert isinstance(verdict, Dead)
    assert len(verdict.reason) == 1000
    assert verdict.reason.startswith("OSError: the root <- LookupError: xxx")


def test_the_root_logger_is_left_alone(calls: InlineCalls) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    tried(calls, a_handler(raising(LookupError())))
    assert (root.level, list(root.handlers)) == before


# Rules of failure


@pytest.mark.parametrize(
    ("on_failure", "on_exhausted", "alone", "hold"),
    [
        (OnFailure.PARK, OnExhausted.HOLD, False, True),
        (OnFailure.PARK, OnExhausted.RELEASE, False, False),
        (OnFailure.ALONE, OnExhausted.HOLD, True, False),
        (OnFailure.ALONE, OnExhausted.RELEASE, True, False),
    ],
)
def test_with_the_stop_flag_off_a_dead_record_holds_nothing(
    calls: InlineCalls, on_failure: OnFailure, on_exhausted: OnExhausted, alone: bool, hold: bool
) -> None:
    handler = a_handler(raising(LookupError()), Rules(Fixed(max_retries=1), on_failure, on_exhausted))
    parked, dead = tried(calls, handler), tried(calls, handler, failures=1)
    assert isinstance(parked, Parked)
    assert isinstance(dead, Dead)
    assert (parked.alone, dead.hold) == (alone, hold)


def test_where_the_first_failure_is_final_nothing_waits(calls: InlineCalls) -> None:
    handler = a_handler(raising(LookupError("x")), Rules(Fixed(max_retries=9), OnFailure.DEAD))
    assert tried(calls, handler) == Dead(1, "LookupError: x", hold=False)


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (Exponential(), [0, 2, 6, 14]),
        (Fixed(), [0, 5, 10, 15]),
        (Linear(), [0, 2, 6, 12]),
        (PowerOfTwo(), [0, 2, 6, 14, 30, 62]),
        (Custom(lambda n: n * 10), [0, 10, 30, 60]),
        (Exponential(max_retries=0), [0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_times_of_all_attempts_are_exact(calls: InlineCalls, policy: RetryPolicy, seconds: list[int]) -> None:
    clock, failures, times = FakeClock(), 0, []
    handler = a_handler(raising(LookupError()), Rules(policy))
    while True:
        times.append((clock.now_ms() - NOW_MS) // 1000)
        verdict = attempt(calls, handler, a_record(), failures=failures, clock=clock)
        if not isinstance(verdict, Parked):
            break
        failures = verdict.failures
        clock.advance(timedelta(milliseconds=verdict.due_ms - clock.now_ms()))
    assert times == seconds
    assert isinstance(verdict, Dead)
    assert verdict.failures == len(seconds)


def caused(error: Exception, cause: Exception) -> Exception:
    """Return an error with its cause."""
    error.__cause__ = cause
    return error


KEY, OS = KeyError("k"), OSError("o")


@pytest.mark.parametrize(
    ("lists", "error", "again"),
    [
        ({}, OS, True),
        ({"retry_on": OSError}, OS, True),
        ({"retry_on": OSError}, KEY, False),
        ({"retry_on": "builtins.OSError"}, ConnectionError(), True),
        ({"no_retry_on": OSError}, OS, False),
        ({"no_retry_on": OSError}, KEY, True),
        ({"retry_on": OSError, "no_retry_on": OSError}, OS, False),
        ({"retry_on": Exception, "no_retry_on": LookupError}, KEY, False),
        ({"retry_if": lambda error: "o" in str(error)}, OS, True),
        ({"retry_if": lambda error: "o" in str(error)}, KEY, False),
        ({"retry_if": [lambda error: False, lambda error: True]}, KEY, True),
        ({"retry_on": OSError, "retry_if": lambda error: True}, KEY, True),
        ({"retry_if": lambda error: True, "no_retry_on": KeyError}, KEY, False),
        ({"retry_on": OSError}, caused(ValueError(), OS), True),
        ({"no_retry_on": OSError}, caused(ValueError(), OS), False),
        ({"retry_on": OSError}, caused(ValueError(), caused(TypeError(), OS)), True),
        ({"no_retry_on": OSError}, ExceptionGroup("several", [KEY, OS]), False),
    ],
)
def test_the_condition_decides_whether_it_is_tried_again(
    calls: InlineCalls, lists: dict[str, Any], error: Exception, again: bool
) -> None:
    handler = a_handler(raising(error), Rules(Exponential(**lists)))
    assert isinstance(tried(calls, handler), Parked if again else Dead)


def test_the_system_s_clock_will_do(calls: InlineCalls) -> None:
    handler = a_handler(answering(None))
    assert attempt(calls, handler, a_record(), failures=0, clock=SYSTEM) == Passed()
