"""Handlers with `transaction=True`: their writes, their events and their progress are one."""

import random
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from penstock import Cancel, Done, Fixed, Record, Retry, Snooze, metrics
from penstock.clock import SYSTEM
from penstock.errors import InvalidHandler, NotTransactional, TransactionEnded
from penstock.operate.dead import dead_letters
from penstock.worker.group.unit import UNIT_RECORDS
from tests.conformance.engines import StoreEngine, driver_of
from tests.crash.clocks import LeapingClock
from tests.crash.waiting import wait_until
from tests.services.slow import but_the_first
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")
RETRY = Fixed(delay=timedelta(seconds=1), max_retries=2)
SOON = timedelta(milliseconds=5)
LIMIT_SECONDS = 120.0  # for a handler: in a test the clock leaps over it, and a busy machine keeps to it
Body = Callable[[Record], Any]


class Books:
    """A table beside Penstock's, written by handlers through `record.tx`."""

    def __init__(self, engine: StoreEngine) -> None:
        self.engine = engine
        self.insert = "INSERT INTO books (place, n) VALUES (?, ?)"
        if engine.url.startswith("postgresql"):
            self.insert = self.insert.replace("?", "%s")
        with engine.outbox.transaction() as conn:
            number = "GENERATED ALWAYS AS IDENTITY" if "%s" in self.insert else ""
            conn.execute(
                f"CREATE TABLE books (number integer {number} PRIMARY KEY, place integer NOT NULL, n integer NOT NULL)"
            )

    def keep(self, record: Record) -> None:
        """Write a record down."""
        record.tx.execute(self.insert, (record.partition, record.value))

    def read(self) -> list[int]:
        """Return what is committed."""
        with self.engine.connect() as conn:
            return sorted(row[0] for row in conn.execute("SELECT n FROM books").fetchall())

    def in_order(self) -> list[int]:
        """Return what is committed, in the order it was written."""
        with self.engine.connect() as conn:
            return [row[0] for row in conn.execute("SELECT n FROM books ORDER BY number").fetchall()]

    def handle(self, body: Body | None = None, **options: Any) -> list[Record]:
        """Register a handler that keeps books and then does something else; return what it is given."""
        calls = list[Record]()
        options = dict[str, Any](group="books", retry=RETRY, transaction=True, id="keep") | options

        def keep(record: Record) -> Any:
            calls.append(record)
            self.keep(record)
            return None if body is None else body(record)

        self.engine.outbox.handler(options.pop("match", "kept"), **options)(keep)
        return calls

    def publish(self, *values: int, key: str | None = "k") -> None:
        """Publish some numbers."""
        with self.engine.connect() as conn:
            for value in values:
                self.engine.outbox.publish(conn, "kept", value, key=key)
            conn.commit()

    def later(self, seconds: float = 1) -> Any:
        """Drain after so many seconds."""
        self.engine.clock.advance(timedelta(seconds=seconds))
        return self.engine.outbox.drain()


@pytest.fixture
def books(engine: StoreEngine) -> Books:
    """Give books on each engine."""
    return Books(engine)


def failing(*values: int, times: int = 99) -> Body:
    """Return a body that fails on some values, so many times each: once with others, then alone."""
    left = dict.fromkeys(values, times)

    def fail(record: Record) -> None:
        if left.get(record.value, 0):
            left[record.value] -= 1
            raise ValueError(f"no {record.value}")

    return fail


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_what_it_wrote_when_its_partition_was_taken_away_is_not_committed(books: Books) -> None:
    """P5: it does not know yet, and its successor does the record again."""

    def robbed(record: Record) -> None:
        if len(calls) == 1:
            with books.engine.connect() as conn:
                conn.execute("UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 1, crashes = 1")
                conn.commit()

    calls = books.handle(robbed)
    books.publish(1)
    books.engine.outbox.drain()
    books.later()
    assert books.read() == [1]
    assert [each.redelivered for each in calls] == [False, True]


def test_what_it_writes_is_there_with_its_progress(books: Books) -> None:
    books.handle()
    books.publish(1, 2, 3)
    books.publish(4, 5, key="other")
    assert books.engine.outbox.drain().delivered == 5
    assert books.engine.outbox.drain().delivered == 0
    assert books.read() == [1, 2, 3, 4, 5]


def test_what_it_publishes_goes_out_with_its_progress(books: Books) -> None:
    outbox = books.engine.outbox
    fail = failing(2, times=2)
    got = list[Any]()

    def hand_on(record: Record) -> None:
        outbox.publish(record.tx, "handed.on", record.value, key=record.key)
        fail(record)

    books.handle(hand_on)
    outbox.handler("handed.on", group="next")(lambda_named(got))
    books.publish(1, 2, 3)
    outbox.drain()
    assert got == [1]
    books.later()
    assert got == [1, 2, 3]


def lambda_named(got: list[Any]) -> Body:
    """Return a handler that remembers values."""

    def remember(record: Record) -> None:
        got.append(record.value)

    return remember


def test_one_that_fails_is_undone_alone_and_its_key_waits_for_it(books: Books) -> None:
    calls = books.handle(failing(3, times=2))
    books.publish(1, 2, 3, 4)
    books.publish(10, 11, key="other")
    counts = books.engine.outbox.drain()
    assert (counts.delivered, counts.retried, counts.parked) == (4, 1, 1)
    assert books.read() == [1, 2, 10, 11]
    assert books.later().delivered == 2
    assert books.read() == [1, 2, 3, 4, 10, 11]
    (first, *again) = [call for call in calls if call.value == 3]
    assert (first.attempt, first.redelivered) == (1, False)
    assert [(call.attempt, call.redelivered) for call in again] == [(1, True), (2, True)]


def test_one_that_fails_for_good_leaves_nothing_and_holds_its_key(books: Books) -> None:
    books.handle(failing(2))
    books.publish(1, 2, 3)
    books.engine.outbox.drain()
    books.later()
    assert books.later().dead == 1
    assert books.later().delivered == 0
    assert books.read() == [1]


@pytest.mark.parametrize("answer", [Retry(), Snooze(timedelta(seconds=1)), Cancel("not ours")])
def test_what_does_not_pass_is_undone_whatever_it_answers(books: Books, answer: Any) -> None:
    answers = [answer, answer]  # with others, then alone
    books.handle(lambda record: answers.pop() if record.value == 2 and answers else Done())
    books.publish(1, 2, 3)
    books.engine.outbox.drain()
    gone = isinstance(answer, Cancel)
    assert books.read() == ([1, 3] if gone else [1])
    books.later()
    assert books.read() == ([1, 3] if gone else [1, 2, 3])


@pytest.mark.parametrize("answer", [{"card": "canary"}, True], ids=repr)
def test_an_answer_that_is_none_is_a_failure(books: Books, caplog: pytest.LogCaptureFixture, answer: Any) -> None:
    """Its reason showed an exception of ours, with the whole record."""
    books.handle(lambda record: answer, retry=Fixed(max_retries=0))
    books.publish(4711)
    assert books.engine.outbox.drain().dead == 1
    assert books.read() == []
    (letter,) = dead_letters(books.engine.outbox, group="books").items
    assert letter.reason.startswith(f"InvalidOutcome: outcome {'True' if answer is True else 'of type dict'}: ")
    assert " <- " not in letter.reason
    for text in (letter.reason, caplog.text):
        assert not re.search("canary|4711|_NotPassed", text)


def test_an_error_that_cannot_be_examined_has_a_verdict_by_its_name(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drain raised, again and again, and no record of the group was delivered."""

    def too_deep(*args: object) -> None:
        raise RecursionError

    monkeypatch.setattr("penstock.redaction.known_text", too_deep)
    books.handle(failing(2), retry=Fixed(max_retries=0))
    books.publish(1, 2, 3, key=None)
    books.engine.outbox.drain()
    assert books.read() == [1, 3]
    assert [each.reason for each in dead_letters(books.engine.outbox, group="books").items] == ["ValueError"]


def test_the_fallback_has_a_transaction_of_its_own(books: Books) -> None:
    def note(record: Record) -> None:
        record.tx.execute(books.insert, (record.partition, -record.value))

    books.handle(failing(2), fallback=note, retry=Fixed(max_retries=0))
    books.publish(1, 2, 3)
    counts = books.engine.outbox.drain()
    assert (counts.delivered, counts.dead) == (3, 0)
    assert books.read() == [-2, 1, 3]


def test_a_fallback_that_fails_leaves_nothing(books: Books) -> None:
    def note(record: Record) -> None:
        books.keep(record)
        raise ValueError("no")

    books.handle(failing(2), fallback=note, retry=Fixed(max_retries=0))
    books.publish(1, 2, 3)
    assert books.engine.outbox.drain().dead == 1
    assert books.read() == [1]


def test_a_partition_is_worked_in_the_order_of_offsets(books: Books) -> None:
    books.engine.outbox.log.create_topic("events", partitions=1)
    calls = books.handle()
    for value in range(30):
        books.publish(value, key=f"k-{value % 4}")
    books.engine.outbox.drain()
    assert [call.offset for call in calls] == list(range(30))


def test_more_records_than_one_transaction_takes(books: Books) -> None:
    books.engine.outbox.log.create_topic("events", partitions=1)
    books.handle(failing(UNIT_RECORDS + 50, times=2))
    books.publish(*range(3 * UNIT_RECORDS))
    books.engine.outbox.drain()
    assert books.read() == list(range(UNIT_RECORDS + 50))
    books.later()
    assert books.read() == list(range(3 * UNIT_RECORDS))


def end_by_method(record: Record) -> None:
    driver_of(record).commit()


def end_by_rollback(record: Record) -> None:
    driver_of(record).rollback()


def end_by_statement(record: Record) -> None:
    record.tx.execute("COMMIT")


def end_and_begin_anew(record: Record) -> None:
    record.tx.execute("COMMIT")
    record.tx.execute("BEGIN")


def end_by_with(record: Record) -> None:
    with driver_of(record):
        pass


@pytest.mark.parametrize("end", [end_by_method, end_by_rollback, end_by_statement, end_and_begin_anew, end_by_with])
def test_a_handler_that_ends_the_transaction_is_found_and_not_repeated(books: Books, end: Body) -> None:
    calls = books.handle(lambda record: end(record) if record.value == 1 else None)
    books.publish(1)
    books.publish(5, key="other")
    counts = books.engine.outbox.drain()
    assert (counts.dead, counts.retried) == (1, 0)
    assert len([call for call in calls if call.value == 1]) <= 2  # with others, then alone
    assert 5 in books.read()  # once more, if a statement has committed it with the other's work


@pytest.mark.parametrize("end", [end_by_method, end_by_rollback, end_by_with])
def test_the_methods_that_would_end_it_do_nothing(books: Books, end: Body) -> None:
    def try_to_end(record: Record) -> None:
        with pytest.raises(TransactionEnded, match="leave out commit, rollback and close"):
            end(record)

    books.handle(try_to_end)
    books.publish(1, 2)
    assert books.engine.outbox.drain().delivered == 2
    assert books.read() == [1, 2]


@pytest.mark.parametrize("text", ["COMMIT", " end", "/* why */ rollback", "-- so\nABORT", "ROLLBACK WORK"])
def test_a_statement_that_would_end_it_is_refused_before_anything_more_is_written(books: Books, text: str) -> None:
    """P6: what others of the unit have written stays theirs to commit, once."""

    def try_to_end(record: Record) -> None:
        with pytest.raises(TransactionEnded, match="leave out commit, rollback and close"):
            driver_of(record).execute(text)
        with pytest.raises(TransactionEnded, match="was executed on"):
            driver_of(record).cursor().execute(text)

    books.handle(try_to_end)
    books.publish(1, 2)
    assert books.engine.outbox.drain().delivered == 2
    assert books.read() == [1, 2]


def test_a_text_that_ends_it_between_other_statements_is_refused(postgres_engine: StoreEngine) -> None:
    """It committed what was written so far, without the cursor."""
    books = Books(postgres_engine)

    def try_to_end(record: Record) -> None:
        record.tx.execute("SELECT 1; SELECT 2")
        with pytest.raises(TransactionEnded, match="COMMIT was executed on"):
            record.tx.execute("SELECT 1; COMMIT; SELECT 2")
        with pytest.raises(TransactionEnded, match="COMMIT was executed on"):
            driver_of(record).cursor().executemany("COMMIT", [()])

    books.handle(try_to_end)
    books.publish(1, 2)
    assert books.engine.outbox.drain().delivered == 2
    assert books.read() == [1, 2]


def test_a_setting_whose_change_would_end_it_is_refused(books: Books) -> None:
    """On SQLite the driver committed what was written so far, without the cursor."""
    on_postgres = books.engine.url.startswith("postgresql")
    name, value = ("autocommit", True) if on_postgres else ("isolation_level", None)

    def try_to_end(record: Record) -> None:
        with pytest.raises(Exception, match="in transaction status INTRANS" if on_postgres else "change of isolation"):
            setattr(driver_of(record), name, value)

    books.handle(try_to_end)
    books.publish(1, 2)
    assert books.engine.outbox.drain().delivered == 2
    assert books.read() == [1, 2]


@pytest.mark.parametrize("fails", [False, True])
def test_factories_that_a_handler_sets_end_with_its_transaction(books: Books, fails: bool) -> None:
    """Handlers of other groups were given its rows; on SQLite the outbox read bytes for texts, and stopped."""
    outbox, seen, on_postgres = books.engine.outbox, list[Any](), books.engine.url.startswith("postgresql")

    def change(record: Record) -> None:
        tx: Any = record.tx
        if on_postgres:
            tx.row_factory, tx.cursor_factory = dict_row, psycopg.ClientCursor
        else:
            tx.row_factory, tx.text_factory = sqlite3.Row, bytes
        if fails:
            raise ValueError("no")

    def look(tx: Any) -> None:
        cursor = tx.execute("SELECT 'a'")
        seen.append((type(cursor), cursor.fetchone()))

    books.handle(change, retry=Fixed(max_retries=0))
    books.handle(lambda record: look(record.tx), group="others", id="look")
    outbox.handler("other", group="late", id="late", transaction=True)(lambda record: look(record.tx))
    books.publish(1)
    outbox.drain()
    with outbox.transaction() as tx:
        look(tx)
        outbox.publish(tx, "other", 1, key="k")
    assert outbox.drain().delivered == 1
    assert [row for _, row in seen] == [("a",)] * 3
    assert psycopg.ClientCursor not in [kind for kind, _ in seen]


def test_a_failed_statement_that_is_swallowed_is_a_failure(books: Books) -> None:
    def stumble(record: Record) -> None:
        with suppress(Exception):
            record.tx.execute("SELECT nonsense FROM nowhere")

    books.handle(stumble)
    books.publish(1)
    on_postgres = books.engine.url.startswith("postgresql")  # elsewhere a statement fails alone
    assert books.engine.outbox.drain().dead == on_postgres
    assert books.read() == ([] if on_postgres else [1])


def test_a_savepoint_undoes_a_part(books: Books) -> None:
    def stumble(record: Record) -> None:
        record.tx.execute("SAVEPOINT part")
        books.keep(record)
        record.tx.execute("ROLLBACK TO part")

    books.handle(stumble)
    books.publish(1, 2)
    assert books.engine.outbox.drain().delivered == 2
    assert books.read() == [1, 2]


def test_elsewhere_a_record_has_no_transaction(books: Books) -> None:
    seen = list[Record]()

    @books.engine.outbox.handler("kept", group="plain")
    def look(record: Record) -> None:
        with pytest.raises(NotTransactional, match="transaction=True"):
            _ = record.tx
        seen.append(record)

    books.publish(1)
    assert books.engine.outbox.drain().delivered == 1
    assert len(seen) == 1


def test_a_record_with_a_transaction_compares_and_shows_as_without(books: Books) -> None:
    calls = books.handle()
    books.publish(1)
    books.engine.outbox.drain()
    (logged,) = [record for partition in range(256) for record in books.engine.outbox.log.read("events", partition)]
    assert repr(logged).removesuffix(")") in repr(calls[0])
    assert "tx" not in repr(calls[0])


async def an_async_handler(record: Record) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": 5}, "rate= beside transaction=True"),
        ({"fallback": an_async_handler}, "or its fallback is async"),
        ({"transaction": 1}, "must be True or False"),
    ],
)
def test_what_does_not_go_with_a_transaction_is_refused(books: Books, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidHandler, match=words):
        books.handle(**options)


def a_batch_handler(records: list[Record]) -> None:
    """Do nothing."""


def test_an_async_or_batch_handler_is_refused(books: Books) -> None:
    with pytest.raises(InvalidHandler, match="batch= beside transaction=True"):
        books.engine.outbox.handler("kept", group="books", transaction=True, batch=10)(a_batch_handler)
    with pytest.raises(InvalidHandler, match="is async"):
        books.engine.outbox.handler("kept", group="books", transaction=True)(an_async_handler)


def test_handlers_of_one_group_agree_on_it(books: Books) -> None:
    books.handle()
    with pytest.raises(InvalidHandler, match="disagree on transaction: True and False"):
        books.engine.outbox.handler("other", group="books")(lambda_named([]))


def test_a_worker_does_as_drain_does(books: Books) -> None:
    outbox = books.engine.another(clock=SYSTEM)
    calls, stop = list[int](), Event()
    fail = failing(7, times=2)

    @outbox.handler("kept", group="books", transaction=True, retry=Fixed(delay=timedelta(milliseconds=5)))
    def keep(record: Record) -> None:
        calls.append(record.value)
        books.keep(record)
        fail(record)

    for value in range(40):
        books.publish(value, key=f"k-{value % 5}")
    thread = Thread(target=lambda: outbox.run(until=stop))
    thread.start()
    try:
        wait_until(lambda: len(books.read()) >= 40, "all are handled")
    finally:
        stop.set()
        thread.join()
    assert books.read() == list(range(40))


def test_a_handler_that_hangs_is_given_up_and_undone(books: Books) -> None:
    outbox = books.engine.another(clock=SYSTEM)
    stop, let_go, hung = Event(), Event(), list[int]()

    @outbox.handler("kept", group="books", transaction=True, timeout=0.2, retry=Fixed(SOON, max_retries=100_000))
    def keep(record: Record) -> None:
        books.keep(record)
        if record.value == 1 and len(hung) < 2:  # with others or alone, then alone
            hung.append(1)
            let_go.wait(60)

    books.publish(1)
    thread = Thread(target=lambda: outbox.run(until=stop))
    thread.start()
    try:
        wait_until(lambda: books.read() == [1], "the last attempt has passed")
    finally:
        let_go.set()
        stop.set()
        thread.join()
    assert books.read() == [1]


@pytest.fixture
def leaping(monkeypatch: pytest.MonkeyPatch) -> LeapingClock:
    """Give a clock whose leaps end the time of a handler, and not the lease of its worker."""
    monkeypatch.setenv("PENSTOCK_CLUSTER_LEASE_TTL", str(10 * LIMIT_SECONDS))
    return LeapingClock()


def dead(books: Books) -> list[str]:
    """Return why records are dead letters."""
    with books.engine.connect() as conn:
        return [row[0] for row in conn.execute("SELECT reason FROM penstock_dead").fetchall()]


def test_a_fallback_that_hangs_is_given_up_and_undone(
    books: Books, leaping: LeapingClock, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = books.engine.another(clock=leaping)
    let_go, hung = Event(), Event()
    counted = metrics.DEAD.values().get(("books", "hangs"), 0)

    def hang(record: Record) -> None:
        books.keep(record)
        hung.set()
        let_go.wait(60)
        with suppress(Exception):
            books.keep(record)

    @outbox.handler(
        "kept",
        group="books",
        id="hangs",
        transaction=True,
        timeout=LIMIT_SECONDS,
        retry=Fixed(max_retries=0),
        fallback=hang,
    )
    def keep(record: Record) -> None:
        books.keep(record)
        if record.value == 1:
            raise ValueError("no")

    books.publish(1)
    with working(outbox):
        assert hung.wait(60)
        leaping.leap(LIMIT_SECONDS)
        books.publish(2, key="other")
        wait_until(lambda: dead(books) == ["ValueError: no"], "it is given up, for the handler's reason")
        wait_until(lambda: books.read() == [2], "others go on: nothing of it is locked")
        let_go.set()
        wait_until(lambda: "ended after it was given up" in caplog.text, "the fallback has ended")
        books.publish(3, key="other")
        wait_until(lambda: books.read() == [2, 3], "and later ones, too")
    assert dead(books) == ["ValueError: no"]
    assert "the fallback of handler hangs did not end within 120 s" in caplog.text
    assert metrics.DEAD.values()["books", "hangs"] == counted + 1


def test_a_handler_that_hangs_to_the_last_has_its_fallback(books: Books, leaping: LeapingClock) -> None:
    outbox = books.engine.another(clock=leaping)
    hung, let_go, told = Event(), Event(), list[str]()
    counted = metrics.DELIVERED.values().get(("books", "late"), 0)

    def note(record: Record, reason: str) -> None:
        told.append(reason)
        record.tx.execute(books.insert, (record.partition, -record.value))

    @outbox.handler(
        "kept",
        group="books",
        id="late",
        transaction=True,
        timeout=LIMIT_SECONDS,
        retry=Fixed(max_retries=0),
        fallback=note,
    )
    def keep(record: Record) -> None:
        books.keep(record)
        hung.set()
        let_go.wait(60)

    books.publish(1)
    try:
        with working(outbox):
            assert hung.wait(60)
            leaping.leap(LIMIT_SECONDS)
            wait_until(lambda: books.read() == [-1], "the fallback has passed it")
            let_go.set()
    finally:
        let_go.set()
    assert [reason.partition(";")[0] for reason in told] == ["HandlerTimeout: handler late did not finish within 120 s"]
    assert (books.read(), dead(books)) == ([-1], [])
    assert metrics.DELIVERED.values()["books", "late"] == counted + 1


def test_a_fallback_that_wants_to_end_the_process_has_failed(books: Books) -> None:
    outbox = books.engine.another(clock=SYSTEM)

    def leave(record: Record) -> None:
        raise SystemExit(1)

    @outbox.handler("kept", group="books", transaction=True, retry=Fixed(max_retries=0), fallback=leave)
    def keep(record: Record) -> None:
        books.keep(record)
        if record.value == 1:
            raise ValueError("no")

    books.publish(1)
    books.publish(2, key="other")
    with working(outbox):
        wait_until(lambda: dead(books) == ["ValueError: no"], "it is given up")
        wait_until(lambda: books.read() == [2], "others go on")


def test_a_fallback_that_goes_on_after_a_failed_statement_has_failed(books: Books) -> None:
    def stumble(record: Record) -> None:
        with suppress(Exception):
            record.tx.execute("SELECT nonsense FROM nowhere")

    books.handle(failing(1), fallback=stumble, retry=Fixed(max_retries=0))
    books.publish(1)
    on_postgres = books.engine.url.startswith("postgresql")  # elsewhere a statement fails alone
    assert books.engine.outbox.drain().dead == on_postgres


def test_one_that_met_another_transaction_is_called_again_and_marked(postgres_engine: StoreEngine) -> None:
    """P6: what the handler did elsewhere the first time is done already."""
    books = Books(postgres_engine)

    def meet(record: Record) -> None:
        if len(calls) == 1:
            record.tx.execute("DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = 'deadlock_detected'; END $$")

    calls = books.handle(meet)
    books.publish(1)
    assert books.engine.outbox.drain().delivered == 1
    assert [(record.attempt, record.redelivered) for record in calls] == [(1, False), (1, True)]
    assert books.read() == [1]


def test_a_fallback_that_met_another_transaction_is_asked_again(postgres_engine: StoreEngine) -> None:
    books, asked = Books(postgres_engine), list[int]()

    def note(record: Record) -> None:
        asked.append(record.value)
        if len(asked) < 3:
            record.tx.execute("DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = 'deadlock_detected'; END $$")
        record.tx.execute(books.insert, (record.partition, -record.value))

    calls = books.handle(failing(1), fallback=note, retry=Fixed(max_retries=0))
    books.publish(1)
    assert books.engine.outbox.drain().delivered == 1
    assert (books.read(), asked, len(calls)) == ([-1], [1, 1, 1], 1)


def test_a_fallback_that_always_meets_another_transaction_has_failed(postgres_engine: StoreEngine) -> None:
    books = Books(postgres_engine)
    met = "DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = 'deadlock_detected'; END $$"

    def collide(record: Record) -> None:
        record.tx.execute(met)

    books.handle(collide, fallback=collide, retry=Fixed(max_retries=0))
    books.publish(1)
    assert books.engine.outbox.drain().dead == 1
    assert "met" in dead(books)[0]


def test_a_fallback_that_loses_its_connection_is_asked_again(postgres_engine: StoreEngine) -> None:
    books, asked = Books(postgres_engine), list[int]()

    def note(record: Record) -> None:
        asked.append(record.value)
        if len(asked) == 1:
            with books.engine.connect() as other:
                other.execute("SELECT pg_terminate_backend(%s)", (driver_of(record).info.backend_pid,))
                other.commit()
        record.tx.execute(books.insert, (record.partition, -record.value))

    books.handle(failing(1), fallback=note, retry=Fixed(max_retries=0))
    books.publish(1)
    assert books.engine.outbox.drain().delivered == 1
    assert (books.read(), asked, dead(books)) == ([-1], [1, 1], [])


@pytest.mark.parametrize("seed", but_the_first(range(4)))
def test_whatever_fails_each_takes_effect_once_and_in_order_per_key(books: Books, seed: int) -> None:
    rng, outbox = random.Random(seed), books.engine.outbox
    outbox.log.create_topic("events", partitions=4)
    tries = Counter[int]()
    doomed = set(rng.sample(range(120), 6))

    def perhaps(record: Record) -> Any:
        tries[record.value] += 1
        if record.value in doomed or rng.random() < 0.05:
            raise ValueError(record.value)
        return rng.choice([None, None, Done(), Snooze(timedelta(seconds=1))]) if rng.random() < 0.1 else None

    books.handle(perhaps, on_exhausted=rng.choice(["hold", "release"]))
    published = defaultdict[str, list[int]](list)
    for value in range(120):
        key = f"k-{rng.randrange(12)}"
        published[key].append(value)
        books.publish(value, key=key)
        if rng.random() < 0.1:
            outbox.drain()
            books.engine.clock.advance(timedelta(seconds=rng.random() * 2))
    for _ in range(30):
        books.later()
    with books.engine.connect() as conn:
        given_up = conn.execute("SELECT count(*) FROM penstock_dead").fetchone()[0]
        waiting = conn.execute("SELECT count(*) FROM penstock_lane_entry").fetchone()[0]
    kept = books.in_order()
    for values in published.values():
        assert [value for value in kept if value in values] == sorted(set(values) & set(kept))
    assert len(kept) == len(set(kept)), "some took effect twice"
    assert not doomed & set(kept)
    assert len(kept) + given_up + waiting == 120
    assert max(tries.values()) > 1
