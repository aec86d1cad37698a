"""More of what a person may decide on dead letters, on every engine: skip, requeue last, edit the headers."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from penstock import Record
from penstock.database.database import Database
from penstock.delivery.store import GroupStore
from penstock.errors import InvalidHeaders
from penstock.membership.member import ClusterSettings, Member
from penstock.model.retry import Fixed
from penstock.operate import dead
from penstock.operate.audit import audit
from penstock.operate.dead import DeadSelection, LetterOutcome, dead_letters, show
from penstock.operate.lanes import LaneState, lanes
from penstock.operate.retention import retain
from penstock.operate.topics import set_retention
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.records import a_record

NEVER = Fixed(timedelta(seconds=1), max_retries=0)
ALL = DeadSelection(group="g", all=True)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


@pytest.fixture
def act(engine: StoreEngine, database: Database) -> Callable[..., LetterOutcome]:
    """Give a way to decide, in the engine's time."""

    def decided(name: str, selection: DeadSelection = ALL, **options: Any) -> LetterOutcome:
        done: LetterOutcome = getattr(dead, name)(database, selection, clock=engine.clock, **options)
        return done

    return decided


Act = Callable[..., LetterOutcome]


class Handler(Seen):
    """A handler that remembers the headers it was given, too."""

    def __init__(self, *failing: int) -> None:
        super().__init__(*failing)
        self.headers: list[dict[str, str | None]] = []

    def __call__(self, record: Record) -> Any:
        self.headers.append(record.headers)
        return super().__call__(record)


def failing(engine: StoreEngine, *poison: int, **options: Any) -> Handler:
    """Subscribe a handler that some numbers kill at once."""
    seen = Handler(*poison)
    subscribe(engine.outbox, "g", seen, **{"retry": NEVER} | options)
    return seen


def drained(engine: StoreEngine, seen: Handler) -> list[int]:
    """Drain with nothing failing any more and return what came."""
    seen.failing.clear()
    seen.clear()
    seen.headers.clear()
    engine.outbox.drain()
    return seen.values()


def poisoned(engine: StoreEngine, *values: int, poison: int = 1, **options: Any) -> Handler:
    seen = failing(engine, poison, **options)
    publish_values(engine, *values)
    engine.outbox.drain()
    return seen


# --- skip


def test_a_skipped_letter_stays_and_its_key_goes_on(engine: StoreEngine, database: Database, act: Act) -> None:
    seen = poisoned(engine, 1, 2, 3)
    assert act("skip", dry_run=True) == LetterOutcome(1)
    assert act("skip") == LetterOutcome(1)
    assert act("skip") == LetterOutcome(0)  # it holds its key no more
    assert [lane.state for lane in lanes(database, clock=engine.clock).items] == [LaneState.SLOW]
    assert drained(engine, seen) == [2, 3]
    (letter,) = dead_letters(database).items
    assert (letter.offset, letter.holding) == (0, False)
    publish_values(engine, 4)
    assert act("requeue") == LetterOutcome(1, out_of_order=1)
    assert sorted(drained(engine, seen)) == [1, 4]
    assert lanes(database, clock=engine.clock).items == []


def test_a_lane_that_one_of_two_letters_is_skipped_of_waits_for_the_other(
    engine: StoreEngine, database: Database, act: Act
) -> None:
    seen = failing(engine, 1, 2)
    publish_values(engine, 1, 2, 3)
    engine.outbox.drain()
    (first,) = dead_letters(database).items
    act("skip", DeadSelection(group="g", id=first.id))
    engine.outbox.drain()
    newest, _ = dead_letters(database).items
    assert [each.holding for each in dead_letters(database).items] == [True, False]
    assert act("skip", dry_run=True) == act("skip", DeadSelection(group="g", id=newest.id)) == LetterOutcome(1)
    assert drained(engine, seen) == [3]


# --- requeue last


def test_what_is_requeued_last_comes_after_all_that_waits_of_its_key(
    engine: StoreEngine, database: Database, act: Act
) -> None:
    seen = poisoned(engine, 1, 2, 3)
    assert act("requeue", last=True, dry_run=True) == LetterOutcome(1, out_of_order=1)
    assert act("requeue", last=True) == LetterOutcome(1, out_of_order=1)
    assert dead_letters(database).items == []
    waiting = {lane.alone: lane.waiting for lane in lanes(database, clock=engine.clock).items}
    assert waiting == {None: 2, 0: 1}
    publish_values(engine, 4)
    came = drained(engine, seen)
    assert came[:2] == [2, 3]
    assert sorted(came) == [1, 2, 3, 4]
    assert lanes(database, clock=engine.clock).items == []


def test_what_is_requeued_last_waits_while_its_key_is_parked(engine: StoreEngine, database: Database, act: Act) -> None:
    seen = failing(engine, 1, 2, retry=Fixed(timedelta(seconds=5), max_retries=1))
    publish_values(engine, 1, 2, 3)
    engine.outbox.drain()
    engine.clock.advance(timedelta(seconds=5))
    engine.outbox.drain()  # 1 is dead
    act("requeue", last=True)
    seen.clear()
    engine.outbox.drain()  # 2 fails and is parked
    assert seen.values() == [2]
    assert drained(engine, seen) == []
    engine.clock.advance(timedelta(seconds=5))
    assert drained(engine, seen) == [2, 3, 1]


def test_what_is_requeued_last_alone_is_delivered_at_once(engine: StoreEngine, act: Act) -> None:
    seen = poisoned(engine, 1)
    assert act("requeue", last=True) == LetterOutcome(1, out_of_order=1)
    assert drained(engine, seen) == [1]


def test_what_is_requeued_last_and_dies_again_holds_nothing(engine: StoreEngine, database: Database, act: Act) -> None:
    seen = poisoned(engine, 1, 2)
    act("requeue", last=True)
    engine.outbox.drain()
    (letter,) = dead_letters(database).items
    assert (letter.holding, seen.values()) == (False, [1, 2, 1])


@pytest.mark.parametrize("last", [False, True])
def test_a_record_that_comes_back_alone_is_seen_by_an_owner_at_work(
    engine: StoreEngine, database: Database, act: Act, last: bool
) -> None:
    """The owner has loaded its lanes: it keeps its partition, and learns what has changed."""
    poisoned(engine, 1, on_exhausted="release")
    publish_values(engine, 2)
    engine.outbox.drain()
    member = Member(database, ClusterSettings(), engine.clock)
    member.join()
    topic = engine.outbox.log.topic("events")
    store = GroupStore(engine.outbox.store, engine.clock, group="g", topic=topic, owner=member.id)
    (letter,) = dead_letters(database).items
    engine.outbox.log.append("events", [a_record("k")], partition=letter.partition)  # it has work
    ((partition, owned),) = store.take(member.living).items()
    assert partition == letter.partition
    assert act("requeue", last=last) == LetterOutcome(1, out_of_order=1)
    assert store.owned()[partition][2] == owned.lanes_version + 1
    owned.machine.touch()
    settlement = owned.machine.settlement()
    assert settlement is not None
    assert store.settle({partition: (owned, settlement)}) == set()
    assert store.owned()[partition][2] == owned.lanes_version
    assert [each.offset for each in owned.machine.take(engine.clock.now_ms(), 10)] == [letter.offset]


# --- edit headers


def published(engine: StoreEngine, **headers: str) -> None:
    with engine.outbox.transaction() as conn:
        engine.outbox.publish(conn, "t", 1, key="k", headers=headers)
        engine.outbox.publish(conn, "t", 2, key="k", headers=headers)


def test_a_record_comes_back_with_its_headers_edited_for_this_group_alone(
    engine: StoreEngine, database: Database, act: Act
) -> None:
    seen, other = failing(engine, 1), Handler()
    subscribe(engine.outbox, "other", other)
    published(engine, kept="k", changed="old", gone="g")
    engine.outbox.drain()
    edits: dict[str, Any] = {"set_headers": {"changed": "new", "added": "a"}, "drop_headers": ["gone", "never"]}
    assert act("requeue", **edits) == LetterOutcome(1)
    assert drained(engine, seen) == [1, 2]
    assert seen.headers == [{"kept": "k", "changed": "new", "added": "a"}, {"kept": "k", "changed": "old", "gone": "g"}]
    assert other.headers == [{"kept": "k", "changed": "old", "gone": "g"}] * 2
    partition = next(p for p in range(256) if engine.outbox.log.bounds("events", p)[1])
    assert engine.outbox.log.read("events", partition)[0].headers["changed"] == "old"  # for the others
    (entry,) = audit(database).items
    assert entry.action == "dead requeue"
    assert entry.subject["headers"] == ["added", "changed", "gone", "never"]
    assert "new" not in str(entry.subject)


def test_edited_headers_stay_over_retries_deaths_and_another_owner(
    engine: StoreEngine, database: Database, act: Act
) -> None:
    seen = failing(engine, 1, retry=Fixed(timedelta(seconds=1), max_retries=1))
    published(engine, a="old")
    for _ in range(2):
        engine.outbox.drain()
        engine.clock.advance(timedelta(seconds=1))
    act("requeue", set_headers={"a": "new"})
    seen.headers.clear()
    for _ in range(2):  # each drain is an owner of its own
        engine.outbox.drain()
        engine.clock.advance(timedelta(seconds=1))
    assert seen.headers == [{"a": "new"}] * 2
    (letter,) = dead_letters(database).items
    shown = show(database, "g", letter.topic, letter.partition, letter.offset)
    assert shown.record.headers == {"a": "new"}
    act("requeue", set_headers={"b": "more"})
    assert drained(engine, seen) == [1, 2]
    assert seen.headers == [{"a": "new", "b": "more"}, {"a": "old"}]


def test_headers_that_cannot_be_read_are_replaced(engine: StoreEngine, database: Database, act: Act) -> None:
    seen = poisoned(engine, 1)
    with engine.connect() as conn:
        conn.execute("UPDATE penstock_dead SET headers = value")
        conn.commit()
    act("requeue", set_headers={"a": "new"})
    assert drained(engine, seen) == [1]
    assert seen.headers == [{"a": "new"}]


def test_the_last_header_may_be_dropped(engine: StoreEngine, act: Act) -> None:
    seen = failing(engine, 1)
    published(engine, a="old")
    engine.outbox.drain()
    act("requeue", drop_headers=["a"], last=True)
    assert drained(engine, seen) == [2, 1]
    assert seen.headers == [{"a": "old"}, {}]


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ({"set_headers": {"": "x"}}, "printable characters"),
        ({"set_headers": {"a": 5}}, "must be a string"),
        ({"drop_headers": "a"}, "must be a list of names"),
        ({"drop_headers": [5]}, "must be a list of names"),
        ({"set_headers": {"a": "x"}, "drop_headers": ["a"]}, "both set and dropped"),
    ],
)
def test_headers_that_can_be_none_are_refused_before_anything_is_done(
    engine: StoreEngine, database: Database, act: Act, edits: dict[str, Any], words: str
) -> None:
    poisoned(engine, 1)
    with pytest.raises(InvalidHeaders, match=words):
        act("requeue", **edits)
    assert len(dead_letters(database).items) == 1


def test_an_edited_record_whose_log_is_gone_is_delivered_too(engine: StoreEngine, database: Database, act: Act) -> None:
    seen = failing(engine, 1)
    published(engine, a="old")
    engine.outbox.drain()
    act("requeue", set_headers={"a": "new"})
    set_retention(database, "events", age=timedelta(0))
    engine.clock.advance(timedelta(days=30))
    retain(database, clock=engine.clock)
    assert drained(engine, seen) == [1, 2]
    assert [each["a"] for each in seen.headers] == ["new", "old"]
