"""Running a caller's transaction: what is run again, how often, after which pauses."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock import Outbox
from penstock.backoff import CHANCE
from penstock.database.sqlite.dialect import SqliteDialect
from penstock.errors import CommitOutcomeUnknown, InvalidInput


class Pauses(list[float]):
    """Notes how long it should have waited."""

    def wait(self, seconds: float) -> None:
        self.append(seconds)

    def set(self) -> None:
        """Nothing waits."""


@pytest.fixture
def pauses(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """Give the pauses, none of which is waited for."""
    noted = Pauses()
    monkeypatch.setattr(outbox, "_closing", noted)
    return noted


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    """Give an outbox in a file."""
    made = Outbox(f"sqlite:///{tmp_path}/shop.db")
    made.migrate()
    yield made
    made.close()


def a_busy_file() -> sqlite3.OperationalError:
    """Return the error of a file whose writer's place was not had in time."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


class Work:
    """Publishes, and fails as often as it is told."""

    def __init__(self, outbox: Outbox, *errors: Exception) -> None:
        self._outbox, self._errors, self.calls = outbox, list(errors), 0

    def __call__(self, conn: Any) -> str:
        self.calls += 1
        id = self._outbox.publish(conn, "t", 1, token="t")
        if self._errors:
            raise self._errors.pop()
        return id


def test_a_conflict_is_run_again_from_the_beginning(outbox: Outbox, pauses: Pauses) -> None:
    work = Work(outbox, a_busy_file(), a_busy_file())
    given = outbox.run_in_tx(work)
    assert (work.calls, len(pauses)) == (3, 2)
    assert outbox.published(None, "t") == given
    assert outbox.drain().sequenced == 1


def test_it_is_given_up_after_ten_replays_with_growing_pauses(
    outbox: Outbox, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50 ms doubling to 2 s, and up to half as much again."""
    work = Work(outbox, *(a_busy_file() for _ in range(20)))
    for most in (False, True):
        pauses.clear()
        monkeypatch.setattr(CHANCE, "uniform", lambda low, high, most=most: high if most else low)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            outbox.run_in_tx(work)
        least = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 2.0]
        assert pauses == pytest.approx([each * (1.5 if most else 1) for each in least])
        work = Work(outbox, *(a_busy_file() for _ in range(20)))
    assert outbox.drain().sequenced == 0


@pytest.mark.parametrize("error", [LookupError("mine"), sqlite3.IntegrityError("UNIQUE"), KeyboardInterrupt()])
def test_what_is_no_conflict_comes_out_at_once(outbox: Outbox, pauses: Pauses, error: Exception) -> None:
    work = Work(outbox, error)
    with pytest.raises(type(error)):
        outbox.run_in_tx(work)
    assert (work.calls, pauses) == (1, [])
    assert outbox.published(None, "t") is None


def test_a_conflict_at_the_commit_is_run_again_and_a_lost_commit_is_not(
    outbox: Outbox, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, errors = SqliteDialect.commit, [a_busy_file()]

    def failing(self: SqliteDialect, conn: Any) -> None:
        if errors:
            raise errors.pop()
        commit(self, conn)

    monkeypatch.setattr(SqliteDialect, "commit", failing)
    work = Work(outbox)
    outbox.run_in_tx(work)
    assert (work.calls, len(pauses)) == (2, 1)
    lost = sqlite3.OperationalError("disk I/O error")
    lost.sqlite_errorcode = sqlite3.SQLITE_IOERR
    errors.append(lost)
    with pytest.raises(CommitOutcomeUnknown, match="disk I/O error") as caught:
        outbox.run_in_tx(work)
    assert (work.calls, caught.value.tokens, caught.value.__cause__) == (3, ("t",), lost)


def test_without_a_token_the_error_says_what_would_have_helped(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = sqlite3.OperationalError("disk I/O error")
    lost.sqlite_errorcode = sqlite3.SQLITE_IOERR
    monkeypatch.setattr(SqliteDialect, "commit", lambda *_: (_ for _ in ()).throw(lost))
    with pytest.raises(CommitOutcomeUnknown, match=r"publish with token=") as caught:
        outbox.run_in_tx(lambda conn: outbox.publish(conn, "t", 1))
    assert caught.value.tokens == ()


def test_tokens_of_other_connections_are_not_among_them(
    outbox: Outbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transaction answers for itself."""
    lost = sqlite3.OperationalError("disk I/O error")
    lost.sqlite_errorcode = sqlite3.SQLITE_IOERR
    other = Outbox(f"sqlite:///{tmp_path}/other.db")
    other.migrate()
    monkeypatch.setattr(SqliteDialect, "commit", lambda *_: (_ for _ in ()).throw(lost))
    with closing(sqlite3.connect(tmp_path / "other.db")) as theirs:

        def work(conn: Any) -> None:
            outbox.publish(conn, "t", 1, token="mine")
            outbox.publish(theirs, "t", 1, token="theirs")

        with pytest.raises(CommitOutcomeUnknown) as caught:
            outbox.run_in_tx(work)
        theirs.rollback()
    assert caught.value.tokens == ("mine",)
    other.close()


# --- async -------------------------------------------------------------------------------------


class Block:
    """An async block around a connection that fails at its end as often as it is told."""

    def __init__(self, conn: Any, *errors: Exception) -> None:
        self.conn, self.errors, self.begun = conn, list(errors), 0

    def __call__(self) -> "Block":
        self.begun += 1
        return self

    async def __aenter__(self) -> Any:
        return self.conn

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is None and self.errors:
            raise self.errors.pop()
        return isinstance(error, EOFError)


async def _working(conn: Any) -> str:
    return "done"


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the pauses of async runs, none of which is waited for."""
    noted: list[float] = []

    async def sleep(seconds: float) -> None:
        noted.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return noted


def test_async_conflicts_are_given_up_after_ten_replays(outbox: Outbox, no_pause: list[float]) -> None:
    block = Block(object(), *(a_busy_file() for _ in range(20)))
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        asyncio.run(outbox.arun_in_tx(block, _working))
    assert (block.begun, len(no_pause)) == (11, 10)
    least = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0, 2.0]
    assert all(each <= pause <= each * 1.5 for each, pause in zip(least, no_pause, strict=True))


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError("cut"), EOFError()])
def test_an_async_commit_without_an_answer_is_in_doubt(outbox: Outbox, error: Exception) -> None:
    block = Block(object(), error)
    with pytest.raises(CommitOutcomeUnknown, match=str(error) or type(error).__name__):
        asyncio.run(outbox.arun_in_tx(block, _working))
    assert block.begun == 1


@pytest.mark.parametrize("error", [LookupError("mine"), sqlite3.IntegrityError("UNIQUE")])
def test_what_is_no_conflict_comes_out_of_an_async_block_as_it_is(outbox: Outbox, error: Exception) -> None:
    block = Block(object(), error)
    with pytest.raises(type(error)) as caught:
        asyncio.run(outbox.arun_in_tx(block, _working))
    assert (caught.value, block.begun) == (error, 1)


@pytest.mark.parametrize("wrong", [None, "engine", lambda: None, lambda: open])
def test_what_gives_no_async_block_is_refused_with_an_example(outbox: Outbox, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"for example engine\.begin of SQLAlchemy"):
        asyncio.run(outbox.arun_in_tx(wrong, _working))


def test_a_block_that_swallows_what_its_work_raises_is_refused(outbox: Outbox) -> None:
    async def work(conn: Any) -> None:
        raise EOFError

    with pytest.raises(InvalidInput, match="has swallowed the exception of its work"):
        asyncio.run(outbox.arun_in_tx(Block(object()), work))
