"""Publishing on every kind of connection a caller may have: the same promises on each."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from penstock import Outbox, Record
from penstock.errors import NoTransaction, SchemaMissing, TokenReused, UnsupportedConnection
from penstock.outbox.adapters import adapter_for, async_adapter_for
from tests.conformance.async_callers import ASYNC_AUTOCOMMITTERS, ASYNC_CALLERS, AsyncFace, Held
from tests.conformance.callers import AUTOCOMMITTERS, CALLERS, Autocommitter, Caller
from tests.conformance.django_callers import DJANGO_AUTOCOMMITTERS, DJANGO_CALLERS
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.services.budget import level_from_environment
from tests.suites.outbox_suite import OrderDeclined, keys, logged

WAYS_TO_WRITE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda face, conn: face.publish(conn, "t", 1),
    lambda face, conn: face.publish(conn, "t", 1, at=timedelta(hours=1)),
    lambda face, conn: face.publish_many(conn, [{"type": "t", "value": 1}] * 2),
    lambda face, conn: face.cancel(conn, "x"),
    lambda face, conn: face.cancel(conn, key="x"),
    lambda face, conn: face.cancel(conn, owner="x"),
    lambda face, conn: face.reschedule(conn, "x", timedelta(hours=1)),
    lambda face, conn: face.publish(conn, "t", 1, token="t"),
)


IN_AUTOCOMMIT = pytest.mark.parametrize(
    "kind", [*AUTOCOMMITTERS, *DJANGO_AUTOCOMMITTERS, *ASYNC_AUTOCOMMITTERS], ids=lambda kind: kind.name
)


# All calls are made on these: every driver, and whatever has an adapter of its own, on each of its engines.
DRIVERS = (
    "sqlite3",
    "psycopg",
    "psycopg in a pipeline",
    "SQLAlchemy connection on sqlite",
    "SQLAlchemy session on postgres",
    "Django connection on sqlite",
    "Django connection on postgres",
    "aiosqlite",
    "psycopg async",
    "asyncpg",
    "SQLAlchemy async connection on aiosqlite",
    "SQLAlchemy async session on psycopg",
    "SQLAlchemy async session on asyncpg",
)
EVERY = {each.name: each for each in (*CALLERS, *DJANGO_CALLERS, *ASYNC_CALLERS)}
VARIANTS = [each for name, each in EVERY.items() if name not in DRIVERS]
ALL_CALLS: list[Any] = [EVERY[name] for name in DRIVERS]
if level_from_environment() == "long":
    ALL_CALLS += [pytest.param(each, marks=pytest.mark.slow) for each in VARIANTS]


@pytest.fixture(params=ALL_CALLS, ids=lambda caller: caller.name)
def caller(request: pytest.FixtureRequest) -> Caller:
    """Give each kind of connection on which all calls are made."""
    found: Caller = request.param
    return found


@pytest.fixture
def store(caller: Caller, request: pytest.FixtureRequest) -> Iterator[StoreEngine]:
    """Give a store of the caller's kind, whose one topic has one partition."""
    opened = StoreEngine(request.getfixturevalue(f"migrated_{caller.engine}"))
    opened.outbox.log.create_topic("events", partitions=1)
    yield opened
    opened.close()


@pytest.fixture
def face(caller: Caller, store: StoreEngine) -> Any:
    """Give what publishes on connections of that kind."""
    return caller.face(store.outbox)


def drained(store: StoreEngine) -> list[str | None]:
    """Return the keys in the log after a drain."""
    store.outbox.drain()
    return keys(logged(store))


def test_a_commit_brings_the_event(caller: Caller, store: StoreEngine, face: Any) -> None:
    with caller.transaction(store.url) as conn:
        given = face.publish(conn, "t", {"n": 1}, key="a", headers={"h": "v"}, owner="me")
    assert drained(store) == ["a"]
    (record,) = logged(store)
    assert (record.id, record.value, record.headers) == (given, {"n": 1}, {"h": "v"})


def test_a_rollback_leaves_nothing(caller: Caller, store: StoreEngine, face: Any) -> None:
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        face.publish(conn, "t", 1, key="never")
        face.publish(conn, "t", 1, key="never", at=timedelta(seconds=1))
        face.publish_many(conn, [{"type": "t", "value": 1, "key": "never"}] * 3)
        raise OrderDeclined
    store.clock.advance(timedelta(hours=1))
    assert drained(store) == []


def test_a_savepoint_rolled_back_leaves_nothing_of_its_own(caller: Caller, store: StoreEngine, face: Any) -> None:
    with caller.transaction(store.url) as conn:
        face.publish(conn, "t", 1, key="before")
        with suppress(OrderDeclined), caller.savepoint(conn):
            face.publish(conn, "t", 1, key="never")
            raise OrderDeclined
        with caller.savepoint(conn):
            face.publish(conn, "t", 1, key="inside")
        face.publish(conn, "t", 1, key="after")
    assert drained(store) == ["before", "inside", "after"]


def test_many_are_staged_in_order(caller: Caller, store: StoreEngine, face: Any) -> None:
    """With every column null in some and not in others, so that no type is guessed from the first."""
    events: list[dict[str, Any]] = [
        {"type": "t", "value": None},
        {"type": "t", "value": b"\x00\xff", "key": "b"},
        {"type": "t", "value": {"x": "'%s"}, "key": "c", "headers": {"h": None}, "owner": "me"},
    ]
    with caller.transaction(store.url) as conn:
        ids = face.publish_many(conn, events * 100)
    assert drained(store) == [None, "b", "c"] * 100
    assert [record.id for record in logged(store)] == ids
    assert [record.data for record in logged(store)][:3] == [None, b"\x00\xff", b'{"x":"\'%s"}']


def test_events_for_later_are_scheduled_and_can_be_cancelled(caller: Caller, store: StoreEngine, face: Any) -> None:
    """1 in time, 0 too late or never there; what a rolled-back cancel took back comes all the same."""
    later = {"type": "t", "value": 1, "at": timedelta(seconds=1)}
    with caller.transaction(store.url) as conn:
        kept = face.publish(conn, "t", 1, key="kept", at=timedelta(seconds=1))
        ids = face.publish_many(conn, [later | {"key": key} for key in ("x", "y", "z")])
    with caller.transaction(store.url) as conn:
        assert [face.cancel(conn, id) for id in (*ids, ids[0], "no such")] == [1, 1, 1, 0, 0]
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        assert face.cancel(conn, kept) == 1
        raise OrderDeclined
    assert drained(store) == []
    store.clock.advance(timedelta(seconds=1))
    assert drained(store) == ["kept"]
    with caller.transaction(store.url) as conn:
        assert face.cancel(conn, kept) == 0


def test_events_for_later_are_cancelled_by_key_and_by_owner(caller: Caller, store: StoreEngine, face: Any) -> None:
    """All of them, and no others: another key, owner or topic, and what has no key or owner, stays."""
    later = {"type": "t", "value": 1, "at": timedelta(seconds=1)}
    told = [
        {"key": "a"},
        {"key": "a", "owner": "me"},
        {"key": "b", "owner": "me"},
        {"key": "b", "owner": "you"},
        {},
        {"key": "a", "topic": "other"},
    ]
    with caller.transaction(store.url) as conn:
        face.publish_many(conn, [later | each for each in told])
    with caller.transaction(store.url) as conn:
        assert face.cancel(conn, key="a") == 2
        assert face.cancel(conn, key="a") == 0
        assert face.cancel(conn, owner="me") == 1
        assert face.cancel(conn, owner="nobody") == 0
    store.clock.advance(timedelta(seconds=1))
    assert sorted(drained(store), key=str) == [None, "b"]
    assert keys(logged(store, "other")) == ["a"]


def test_an_event_for_later_is_given_another_time(caller: Caller, store: StoreEngine, face: Any) -> None:
    """True in time, False too late or never there; all but the time stays, and a rollback takes it back."""
    with caller.transaction(store.url) as conn:
        later, sooner, kept = (
            face.publish(conn, "t", {"k": key}, key=key, headers={"h": key}, at=timedelta(seconds=5))
            for key in ("later", "sooner", "kept")
        )
    published = store.clock.now()
    store.clock.advance(timedelta(seconds=1))
    with caller.transaction(store.url) as conn:
        assert face.reschedule(conn, later, timedelta(seconds=20)) is True
        assert face.reschedule(conn, sooner, timedelta(days=-1)) is True
        assert face.reschedule(conn, later, timedelta(), topic="other") is False
        assert face.reschedule(conn, "no such", timedelta()) is False
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        assert face.reschedule(conn, kept, timedelta()) is True
        raise OrderDeclined
    assert drained(store) == ["sooner"]
    store.clock.advance(timedelta(seconds=10))
    assert drained(store) == ["sooner", "kept"]
    store.clock.advance(timedelta(seconds=10))
    assert drained(store) == ["sooner", "kept", "later"]
    record = logged(store)[2]
    assert (record.id, record.value, record.headers) == (later, {"k": "later"}, {"h": "later"})
    assert record.timestamp == published
    with caller.transaction(store.url) as conn:
        assert face.reschedule(conn, kept, timedelta(days=1)) is False


def test_events_for_later_are_moved_by_key_and_by_owner(caller: Caller, store: StoreEngine, face: Any) -> None:
    later: dict[str, Any] = {"type": "t", "value": 1, "at": timedelta(seconds=5)}
    told: list[dict[str, Any]] = [{"key": "a"}, {"key": "a"}, {"key": "b"}, {"owner": "me"}]
    with caller.transaction(store.url) as conn:
        face.publish_many(conn, [later | each for each in told])
        assert face.reschedule(conn, at=timedelta(), key="a") == 2
        assert face.reschedule(conn, at=timedelta(seconds=9), owner="me") == 1
        assert face.reschedule(conn, at=timedelta(), owner="nobody") == 0
    assert drained(store) == ["a", "a"]
    store.clock.advance(timedelta(seconds=5))
    assert sorted(drained(store), key=str) == ["a", "a", "b"]
    store.clock.advance(timedelta(seconds=4))
    assert len(drained(store)) == 4


def test_the_same_token_again_is_the_same_event(caller: Caller, store: StoreEngine, face: Any) -> None:
    """Alone and among many, in this transaction and a later one, until the window is over."""
    token = UUID(int=7)
    with caller.transaction(store.url) as conn:
        first = face.publish(conn, "t", 1, key="first", token=token)
        assert face.publish(conn, "t", 1, key="first", token=str(token)) == first
        with pytest.raises(TokenReused):
            face.publish(conn, "t", 2, key="never", token=str(token))
        assert face.published(conn, token) == first
    many = [{"type": "t", "value": 1, "key": key, "token": f"t-{key}"} for key in "cbadcc"]
    many[3] |= {"key": "first", "token": token}
    with caller.transaction(store.url) as conn:
        ids = face.publish_many(conn, [*many, {"type": "t", "value": 1, "key": "free"}])
    assert (ids[3], ids[4:6]) == (first, [ids[0], ids[0]])
    assert drained(store) == ["first", "c", "b", "a", "free"]
    assert [record.id for record in logged(store)] == [first, *ids[:3], ids[6]]
    with caller.transaction(store.url) as conn:
        assert [face.published(conn, f"t-{key}") for key in "abcx"] == [ids[2], ids[1], ids[0], None]
    store.clock.advance(timedelta(days=7) - timedelta(milliseconds=1))
    with caller.transaction(store.url) as conn:
        assert face.publish(conn, "t", 1, key="first", token=token) == first
    store.clock.advance(timedelta(milliseconds=1))
    assert face.published(None, token) is None
    with caller.transaction(store.url) as conn:
        again = face.publish_many(conn, [{"type": "t", "value": 1, "key": key, "token": token} for key in "xx"])
    assert again == [face.published(None, token)] * 2
    assert drained(store)[5:] == ["x"]


def test_a_token_whose_first_use_was_rolled_back_is_free(caller: Caller, store: StoreEngine, face: Any) -> None:
    """Also when only its savepoint was."""
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        face.publish(conn, "t", 1, key="never", token="t")
        raise OrderDeclined
    assert face.published(None, "t") is None
    with caller.transaction(store.url) as conn:
        with suppress(OrderDeclined), caller.savepoint(conn):
            face.publish(conn, "t", 1, key="never", token="t")
            raise OrderDeclined
        given = face.publish(conn, "t", 1, key="second", token="t")
    assert face.published(None, "t") == given
    assert drained(store) == ["second"]


@pytest.mark.parametrize("declined", [False, True], ids=["commit", "rollback"])
def test_listeners_hear_of_what_was_committed(declined: bool, caller: Caller, store: StoreEngine, face: Any) -> None:
    """After the commit, never after a rollback, nor after that of a savepoint."""
    heard: list[str | None] = []

    @store.outbox.listener("order.*")
    def hear(record: Record) -> None:
        heard.append(record.key)

    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        face.publish(conn, "order.placed", 1, key="a")
        with suppress(OrderDeclined), caller.savepoint(conn):
            face.publish(conn, "order.placed", 1, key="never")
            raise OrderDeclined
        face.publish_many(conn, [{"type": type, "value": 1, "key": type} for type in ("other", "order.paid")])
        assert heard == []
        if declined:
            raise OrderDeclined
    with caller.transaction(store.url) as conn:
        face.publish(conn, "order.placed", 1, key="end")
    wait_until(lambda: "end" in heard, "the last is heard")
    assert heard == (["end"] if declined else ["a", "order.paid", "end"])


def test_the_callers_own_rows_share_the_transaction(caller: Caller, store: StoreEngine, face: Any) -> None:
    """Both or neither."""
    with store.connect() as conn:
        conn.execute("CREATE TABLE orders (id integer)")
        conn.commit()
    with caller.transaction(store.url) as conn:
        caller.execute(conn, "INSERT INTO orders VALUES (1)")
        face.publish(conn, "t", 1, key="a")
        caller.execute(conn, "INSERT INTO orders VALUES (1)")
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        caller.execute(conn, "INSERT INTO orders VALUES (1)")
        face.publish(conn, "t", 1, key="never")
        raise OrderDeclined
    with store.connect() as conn:
        assert conn.execute("SELECT count(*) FROM orders").fetchone()[0] == 2
    assert drained(store) == ["a"]


def test_when_publish_returns_the_server_has_its_statement(caller: Caller, store: StoreEngine, face: Any) -> None:
    """In a pipeline, too: only the answer is awaited later. Nothing is gathered until the commit."""
    if caller.engine != "postgres":
        pytest.skip("there is no server: the statement runs in this process")
    shown = "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with store.connect() as watching, caller.transaction(store.url) as conn:
        watching.autocommit = True
        face.publish(conn, "t", 1, at=timedelta(hours=1))  # the first asks how durable the session is
        caller.execute(conn, "SELECT 1")
        face.publish(conn, "t", 2)
        wait_until(
            lambda: any(
                query.startswith("INSERT INTO penstock_staged") for [query] in watching.execute(shown).fetchall()
            ),
            "the server has the INSERT",
            seconds=10,
        )


def test_missing_tables_are_named_with_the_remedy(caller: Caller, request: pytest.FixtureRequest) -> None:
    if "pipeline" in caller.name:
        pytest.skip("in a pipeline the driver reports at its next synchronisation, in its own words")
    outbox = Outbox(request.getfixturevalue(f"{caller.engine}_store"))
    for write in WAYS_TO_WRITE:
        with (
            pytest.raises(SchemaMissing, match=r"penstock_\w+ is not .* run outbox\.migrate\(\)") as caught,
            caller.transaction(outbox.url) as conn,
        ):
            write(caller.face(outbox), conn)
        assert caught.value.__cause__ is not None
    outbox.close()


def test_a_connection_to_another_kind_of_database_is_refused(caller: Caller, request: Any) -> None:
    other = "sqlite" if caller.engine == "postgres" else "postgres"
    outbox = Outbox(request.getfixturevalue(f"{other}_store"))
    with caller.transaction(request.getfixturevalue(f"{caller.engine}_store")) as conn:
        for write in WAYS_TO_WRITE:
            with pytest.raises(UnsupportedConnection, match=f"this outbox is on {other}"):
                write(caller.face(outbox), conn)
    outbox.close()


def test_a_session_that_may_lose_commits_is_warned_of_once(
    caller: Caller, store: StoreEngine, face: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """After the first event of a connection. In a pipeline nobody waits for the answer."""
    setting = {"sqlite": "synchronous = OFF", "postgres": "synchronous_commit = off"}[caller.engine]
    can_be_set = caller.name != "Django connection on sqlite"  # its transaction has begun
    with caller.transaction(store.url) as conn:
        if can_be_set:
            caller.execute(conn, f"{'PRAGMA' if caller.engine == 'sqlite' else 'SET'} {setting}")
        for key in "abc":
            face.publish(conn, "t", 1, key=key, token=key)
            face.publish(conn, "t", 1, key=key, token=key)
    warned = [each for each in caplog.messages if setting.replace(" ", "") in each]
    assert len(warned) == (can_be_set and caller.name != "psycopg in a pipeline")
    assert drained(store) == ["a", "b", "c"]


def test_a_session_as_it_should_be_is_not_warned_of(
    caller: Caller, store: StoreEngine, face: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caller.transaction(store.url) as conn:
        if caller.engine == "postgres":
            caller.execute(conn, "SET synchronous_commit = local")
        face.publish(conn, "t", 1, key="a")
    assert not [each for each in caplog.messages if "synchronous" in each]


@IN_AUTOCOMMIT
def test_autocommit_is_refused_with_the_remedy(kind: Autocommitter, request: pytest.FixtureRequest) -> None:
    """The event would be a write of its own. All ways to write, and nothing is written."""
    store = StoreEngine(request.getfixturevalue(f"migrated_{kind.engine}"))
    with kind.connection(store.url) as conn:
        for write in WAYS_TO_WRITE:
            with pytest.raises(NoTransaction, match=kind.remedy):
                write(kind.face(store.outbox), conn)
    store.clock.advance(timedelta(days=1))
    assert store.outbox.drain().sequenced == 0
    store.close()


@IN_AUTOCOMMIT
def test_autocommit_may_be_allowed(kind: Autocommitter, request: pytest.FixtureRequest) -> None:
    """For what is one statement; the refusal of the rest says so, that of others names the option."""
    store = StoreEngine(request.getfixturevalue(f"migrated_{kind.engine}"))
    face, allowing = kind.face(store.outbox), kind.face(store.another(allow_autocommit=True))
    with kind.connection(store.url) as conn:
        with pytest.raises(NoTransaction, match=r"Outbox\(\.\.\., allow_autocommit=True\)"):
            face.publish(conn, "t", 1)
        allowing.publish(conn, "t", 1, key="a")
        scheduled = [allowing.publish(conn, "t", 1, key="b", at=timedelta(hours=1)) for _ in range(2)]
        assert allowing.cancel(conn, scheduled[0]) == 1
        assert allowing.reschedule(conn, scheduled[1], timedelta(seconds=1)) is True
        with pytest.raises(NoTransaction, match="for one event without a token"):
            allowing.publish_many(conn, [{"type": "t", "value": 1}] * 2)
        with pytest.raises(NoTransaction, match="for one event without a token"):
            allowing.publish(conn, "t", 1, token="x")
    store.clock.advance(timedelta(days=1))
    assert store.outbox.drain().sequenced == 2
    store.close()


def test_the_wrong_face_is_refused_with_the_remedy(caller: Caller, store: StoreEngine) -> None:
    """Sync methods refuse an async connection and the other way, before anything is written."""
    with caller.transaction(store.url) as conn:
        if isinstance(conn, Held):
            for write in WAYS_TO_WRITE:
                with pytest.raises(UnsupportedConnection, match=r"it is async: use `await outbox\.apublish\("):
                    write(store.outbox, conn.conn)
        else:
            with asyncio.Runner() as runner:
                for write in WAYS_TO_WRITE:
                    with pytest.raises(UnsupportedConnection, match=r"it is sync: use `outbox\.publish\("):
                        write(AsyncFace(store.outbox), Held(conn, runner))
    store.clock.advance(timedelta(days=1))
    assert drained(store) == []


class Watched(list[tuple[Any, Any]]):
    """A bell that only notes what it shall watch."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[bool] = []
        self.has_hook = False

    def look(self) -> None:
        """Record that a library reported a commit, and whether it was over."""
        self.reports.append(self.is_open())

    def watch(self, conn: Any, is_open: Any, slots: Any = None, *, hooked: bool = False) -> None:
        self.append((conn, is_open))
        self.has_hook |= hooked

    def close(self) -> None:
        """Nothing to close."""

    def is_open(self) -> bool:
        """Look as the bell does: from a thread of its own, and what raises has ended."""
        ((conn, is_open),) = self

        def look() -> bool:
            try:
                return bool(is_open(conn))
            except Exception:
                return False

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(look).result()


@pytest.mark.parametrize("declined", [False, True], ids=["commit", "rollback"])
def test_the_bell_sees_the_transaction_end(
    declined: bool, caller: Caller, store: StoreEngine, face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched()
    monkeypatch.setattr(store.outbox, "_bell", watched)
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        face.publish(conn, "t", 1)
        assert watched.is_open()
        if declined:
            raise OrderDeclined
    assert not watched.is_open()
    assert watched.reports == ([False] if watched.has_hook and not declined else [])


@pytest.mark.parametrize("caller", VARIANTS, indirect=True, ids=lambda caller: caller.name)
def test_a_variant_begins_and_ends_its_transactions_like_its_driver(
    caller: Caller, store: StoreEngine, face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is where it differs; all calls are made on its driver, and with `--long` on it, too."""
    watched = Watched()
    with caller.transaction(store.url) as conn, monkeypatch.context() as patch:
        patch.setattr(store.outbox, "_bell", watched)
        face.publish(conn, "t", 1, key="committed")
        assert watched.is_open()
    assert not watched.is_open()
    with caller.transaction(store.url) as conn:
        with suppress(OrderDeclined), caller.savepoint(conn):
            face.publish(conn, "t", 1, key="never")
            raise OrderDeclined
        with caller.savepoint(conn):
            face.publish_many(conn, [{"type": "t", "value": 1, "key": "inside"}])
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        face.publish(conn, "t", 1, key="never")
        raise OrderDeclined
    assert drained(store) == ["committed", "inside"]


@IN_AUTOCOMMIT
def test_the_bell_sees_no_transaction_on_an_idle_connection(
    kind: Autocommitter, request: pytest.FixtureRequest
) -> None:
    """Open, used and idle: as after the end of a transaction, while the program keeps its connection."""
    with kind.connection(request.getfixturevalue(f"{kind.engine}_store")) as conn:
        kind.execute(conn, "SELECT 1")
        if isinstance(conn, Held):
            adapter = async_adapter_for(conn.conn, kind.engine)
            assert not adapter.is_open(adapter.driver_connection(conn.conn))
        else:
            sync = adapter_for(conn, kind.engine)
            assert not sync.is_open(sync.driver_connection(conn))
