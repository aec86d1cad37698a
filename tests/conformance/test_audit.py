"""The audit, on every engine: what is done is in it, in the same transaction, with who did it."""

import getpass
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest

from penstock.clock import from_ms
from penstock.database.database import Database, Transaction
from penstock.errors import InvalidPage
from penstock.model.retry import Fixed
from penstock.operate import audit as auditing
from penstock.operate import dead, groups
from penstock.operate.audit import audit, write
from penstock.operate.dead import DeadSelection
from tests.conformance.engines import StoreEngine
from tests.suites.handling_suite import Seen, publish_values, subscribe

NEVER = Fixed(timedelta(seconds=1), max_retries=0)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


def test_decisions_on_dead_letters_are_audited_without_any_payload(engine: StoreEngine, database: Database) -> None:
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=NEVER)
    publish_values(engine, 1, key="o-1")
    engine.outbox.drain()
    by_key = DeadSelection(group="g", key="o-1")
    dead.requeue(database, by_key, dry_run=True, clock=engine.clock)
    assert audit(database).items == []
    dead.requeue(database, by_key, clock=engine.clock)
    engine.outbox.drain()
    dead.discard(database, DeadSelection(group="g", all=True), clock=engine.clock, actor="anna")
    dead.discard(database, DeadSelection(group="g", all=True), clock=engine.clock)
    moments = from_ms(0), from_ms(engine.clock.now_ms()) + timedelta(hours=1)
    dead.discard(database, DeadSelection(group="g", since=moments[0], before=moments[1]), clock=engine.clock)
    newest, oldest = audit(database).items
    assert (newest.action, newest.actor, newest.count) == ("dead discard", "anna", 1)
    assert newest.subject == {"group": "g", "all": True}
    assert (oldest.action, oldest.subject) == ("dead requeue", {"group": "g", "key": "o-1"})
    assert oldest.at == from_ms(engine.clock.now_ms())


def test_what_does_not_happen_is_not_audited(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is written with the change: neither comes without the other."""
    subscribe(engine.outbox, "g", Seen())
    publish_values(engine, 1)
    engine.outbox.drain()

    def fail(tx: Transaction, *args: object, **options: object) -> None:
        write(tx, "group pause", {"group": "g"}, 1, None)
        raise RuntimeError("torn down")

    with monkeypatch.context() as patch:
        patch.setattr(auditing, "write", fail)
        with pytest.raises(RuntimeError):
            groups.pause(database, "g")
    assert audit(database).items == []
    assert groups.show(database, "g", clock=engine.clock).group.paused_at is None


def test_pages_join_and_filters_narrow(engine: StoreEngine, database: Database) -> None:
    for number in range(7):
        database.run(partial(written, number))
    for limit in (1, 2, 3, 6, 7, 8):
        found, after, pages = list[int](), None, 0
        while pages == 0 or after is not None:
            page = audit(database, limit=limit, after=after)
            found, after, pages = found + [each.count for each in page.items], page.after, pages + 1
        assert (found, pages) == ([6, 5, 4, 3, 2, 1, 0], -(-7 // limit))
    assert [each.count for each in audit(database, action="a-1").items] == [5, 3, 1]
    assert [each.count for each in audit(database, actor="b-4").items] == [4]
    assert audit(database, action="\0").items == []
    for refused in ({"limit": 0}, {"limit": -1}, {"after": "nonsense"}, {"after": "WyJhIl0"}):
        with pytest.raises(InvalidPage):
            audit(database, **refused)


def test_a_page_has_sixteen_rows_unless_told(engine: StoreEngine, database: Database) -> None:
    for number in range(17):
        database.run(partial(written, number))
    page = audit(database)
    assert (len(page.items), page.after is None) == (16, False)
    assert [each.count for each in audit(database, after=page.after).items] == [0]


def test_who_acts_is_said_or_found_out(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def actor_of(actor: str | None = None) -> str:
        database.run(lambda tx: write(tx, "a", {"key": "k\0\ud800", "none": None}, 1, None, actor=actor))
        entry = audit(database).items[0]
        assert "none" not in entry.subject
        return entry.actor

    monkeypatch.delenv("PENSTOCK_ACTOR", raising=False)
    assert re.fullmatch(r".+@.+", actor_of())
    monkeypatch.setenv("PENSTOCK_ACTOR", "deploy-bot")
    assert actor_of() == "deploy-bot"
    assert actor_of("anna") == "anna"
    assert len(actor_of("x" * 1000)) == 255
    monkeypatch.setenv("PENSTOCK_ACTOR", " ")
    monkeypatch.setattr(getpass, "getuser", nameless)
    assert actor_of().startswith("uid ")


def written(number: int, tx: Transaction) -> None:
    write(tx, f"a-{number % 2}", {"n": number}, number, 5, actor=f"b-{number}")


def nameless() -> str:
    raise OSError("no user has that number")
