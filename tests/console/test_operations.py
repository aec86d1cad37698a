"""What pages ask, by itself and over each kind of store: the overview, browsing, a key's course, errors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from penstock import Cancel, Fixed, Outbox, Record
from penstock.clock import SYSTEM, from_ms
from penstock.database.migrations import migrate
from penstock.errors import InvalidPage, UnknownPartition
from penstock.log.contract import Position
from penstock.log.store import Store, open_store
from penstock.operate import browse as browsing
from penstock.operate.browse import browse
from penstock.operate.dead import DeadSelection, dead_letters, requeue
from penstock.operate.dead_views import dead_errors, error_of
from penstock.operate.key_course import StepState, key_course
from penstock.operate.members import Presence, members
from penstock.operate.overview import overview
from penstock.operate.producer import RecordWanted, produce
from penstock.operate.topics import grow
from tests.crash.waiting import wait_until
from tests.working import working

KINDS = ("sqlite", "postgres", "files")


@pytest.fixture(params=["sqlite", *(pytest.param(each, marks=pytest.mark.slow) for each in KINDS[1:])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give a store of each kind with a topic of eight partitions and 300 records of 20 keys."""
    url = f"file://{tmp_path}/log" if request.param == "files" else request.getfixturevalue(f"{request.param}_store")
    with closing(open_store(url)) as opened:
        migrate(opened.database)
        opened.log.create_topic("orders", partitions=8)
        chance = random.Random(5)
        for first in range(0, 300, 20):
            records = [
                RecordWanted(b'{"n": %d}' % n, "order.paid" if n % 3 else "order.placed", f"k-{chance.randrange(20)}")
                for n in range(first, first + 20)
            ]
            produce(opened, "orders", records)
        yield opened


def _wanted(number: int, key: str) -> RecordWanted:
    kind = "order.paid" if number % 3 else "order.placed"
    return RecordWanted(b'{"n": %d}' % number, kind, key, ())


def paged(store: Store, **asked: object) -> list[Record]:
    """Return the records of all pages, one after the other."""
    found: list[Record] = []
    after: str | None = None
    while True:
        page = browse(store, "orders", after=after, **asked)  # type: ignore[arg-type]
        found += [each.record for each in page.items]
        after = page.after
        if after is None:
            return found


@pytest.mark.parametrize("start", ["newest", "oldest"])
@pytest.mark.parametrize("limit", [7, 50])
def test_pages_hold_every_record_once_and_partitions_in_order(store: Store, start: str, limit: int) -> None:
    found = paged(store, start=start, limit=limit)
    assert len({each.id for each in found}) == len(found) == 300
    for partition in range(8):
        offsets = [int(each.offset or 0) for each in found if each.partition == partition]
        assert offsets == sorted(offsets, reverse=start == "newest")
    times = [each.timestamp_ms or 0 for each in found]
    assert times == sorted(times, reverse=start == "newest")


def test_records_are_found_by_key_type_partition_offset_and_time(store: Store) -> None:
    everything = paged(store)
    for key in ("k-3", "k-none"):
        assert [each.id for each in paged(store, key=key)] == [each.id for each in everything if each.key == key]
    paid = [each.id for each in everything if each.type == "order.paid"]
    assert [each.id for each in paged(store, type="order.paid")] == paid
    assert len(paid) == 200
    assert {each.partition for each in paged(store, partition=3)} == {3}
    assert min(int(each.offset or 0) for each in paged(store, start=5)) == 5
    middle = everything[150].timestamp_ms
    later = [each.id for each in everything if each.timestamp_ms >= middle]
    assert sorted(each.id for each in paged(store, start=from_ms(middle))) == sorted(later)


def test_a_filter_that_finds_nothing_is_given_up_and_taken_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "SCANNED", 100)
    page = browse(store, "orders", type="order.none")
    assert (page.items, page.is_cut) == ([], True)
    assert page.scanned < 300
    assert paged(store, type="order.none") == []  # it comes to an end


def test_records_that_are_gone_do_not_hold_pages_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets that the log does not hold count as looked at, and are not looked at again."""
    topic = store.log.topic("orders")
    kept = {each.id for each in paged(store) if each.key == "k-3"}
    gone = [each for each in paged(store) if each.id not in kept]
    store.log.erase(topic, {Position(int(each.partition or 0), int(each.offset or 0)) for each in gone})
    monkeypatch.setattr(browsing, "SCANNED", 40)
    for start in ("newest", "oldest"):
        assert {each.id for each in paged(store, start=start)} == kept


def test_a_key_is_found_where_it_was_before_its_topic_grew(store: Store) -> None:
    before = {each.id for each in paged(store, key="k-3")}
    grow(store, "orders", 16)
    produce(store, "orders", [_wanted(n, f"k-{n}") for n in range(20)])
    after = {each.id for each in paged(store, key="k-3")}
    assert before < after
    assert len(after) == len(before) + 1


def test_large_values_do_not_fill_the_memory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "PREVIEW_BYTES", 1000)
    page = browse(store, "orders")
    assert [each.has_value for each in page.items].count(True) in range(1, 20)
    assert all(each.record.data is not None for each in page.items if each.has_value)


def test_places_that_no_page_gave_are_refused(store: Store) -> None:
    for after in ("", "AAAA", "ü", "k8IB", "kZIBAg"[:5]):
        if after:
            with pytest.raises(InvalidPage):
                browse(store, "orders", after=after)
    with pytest.raises(UnknownPartition):
        browse(store, "orders", partition=8)


def test_the_overview_counts_what_there_is(store: Store) -> None:
    now = overview(store)
    assert (now.topics, now.logged, now.records) == (1, 300, 300)
    assert (now.groups, now.members) == ((), ())


@pytest.fixture
def shop(sqlite_store: str) -> Iterator[Outbox]:
    """Give an outbox with a group that fails in three ways."""
    with closing(Outbox(sqlite_store)) as outbox:
        outbox.migrate()

        @outbox.handler("order.*", group="mailer", retry=Fixed(timedelta(hours=1), max_retries=1))
        def mail(record: Record) -> Cancel | None:
            word, _, number = str(record.key).partition("-")
            if word == "parked":
                raise ValueError(f"not now {number}")
            return Cancel(f"no such customer: {number}") if word == "dead" else None

        with outbox.transaction() as conn:
            for key in ("a-1", "dead-1", "dead-2", "parked-1", "parked-1", "dead-1"):
                outbox.publish(conn, "order.placed", {}, key=key)
        outbox.drain()
        yield outbox


def test_the_overview_tells_of_groups(shop: Outbox) -> None:
    (mailer,) = overview(shop).groups
    assert (mailer.name, mailer.kind, mailer.passed, mailer.lag) == ("mailer", "handler", 6, 0)
    assert (mailer.parked, mailer.held, mailer.dead) == (1, 0, 3)


def test_a_key_has_its_course(shop: Outbox) -> None:
    dead = key_course(shop, "dead-1")
    assert [each.state for record in dead.records for each in record.steps] == [StepState.DEAD] * 2
    parked = key_course(shop, "parked-1", topic="events")
    behind, first = (record.steps[0] for record in parked.records)
    assert (first.state, first.failures, first.note) == (StepState.WAITING, 1, "ValueError: not now 1")
    assert (behind.state, behind.note) == (StepState.WAITING, "behind an earlier record of its key")
    assert first.at is not None
    assert first.at > from_ms(SYSTEM.now_ms())
    ((delivered,),) = (record.steps for record in key_course(shop, "a-1").records)
    assert delivered.state is StepState.DELIVERED
    assert key_course(shop, "nobody").records == ()


def test_a_record_that_a_group_has_yet_to_read_is_ahead_of_it(shop: Outbox) -> None:
    produce(shop, "events", [RecordWanted(b"{}", "order.placed", "new-1", ())])
    ((ahead,),) = (record.steps for record in key_course(shop, "new-1").records)
    assert ahead.state is StepState.AHEAD


def test_dead_letters_are_grouped_and_decided_on_by_error(shop: Outbox) -> None:
    (found,) = dead_errors(shop).errors
    assert (found.group, found.error, found.count) == ("mailer", "no such customer: ", 3)
    assert len(dead_letters(shop, error=found.error).items) == 3
    assert dead_letters(shop, error="No such").items == []
    assert requeue(shop, DeadSelection(group="mailer", error="no such customer: 2"), dry_run=True).count == 1
    assert requeue(shop, DeadSelection(group="mailer", error=found.error)).count == 3


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("ValueError: order 17 has no address", "ValueError: order "),
        ("KeyError: 'name'", "KeyError: "),
        ("17", "17"),
        ("E 5: x", "E 5: x"),
        ("", ""),
        ("x" * 200, "x" * 80),
        ("100% of %s_ and \\ are as they are", "100% of %s_ and \\ are as they are"),
    ],
)
def test_an_error_is_what_reasons_share(reason: str, error: str) -> None:
    assert error_of(reason) == error
    assert reason.startswith(error)


def test_members_are_told_with_how_they_are(shop: Outbox) -> None:
    with working(shop):
        wait_until(lambda: any("mailer" in each.groups for each in members(shop)), "the worker serves its group")
        (one,) = members(shop)
        assert (one.presence, one.slots) == (Presence.RUNNING, True)
        assert one.lease_seconds > 0
    assert members(shop) == []
