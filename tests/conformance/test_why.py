"""`why` on every engine: one sentence for each reason, word for word."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.clock import SYSTEM, from_ms
from penstock.database.database import Database
from penstock.delivery.cursor_state import Trial
from penstock.delivery.retention_trim import trim
from penstock.delivery.store import GroupStore
from penstock.errors import UnknownGroup
from penstock.log.contract import OffsetRange
from penstock.membership.member import ClusterSettings, Member
from penstock.membership.process import Process
from penstock.membership.serving import ServedGroup, Serves
from penstock.membership.sharing import SharingMember
from penstock.model.outcome import Cancel, Snooze
from penstock.model.record import Record
from penstock.model.retry import Fixed
from penstock.operate import dead, scheduled
from penstock.operate.dead import DeadSelection
from penstock.operate.erase import erase
from penstock.operate.reset import reset
from penstock.operate.why import Answer, Code, QuestionKind, finder, why
from penstock.worker.group import bounds
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, subscribe
from tests.suites.outbox_suite import in_one_partition
from tests.suites.records import a_record

pytestmark = pytest.mark.usefixtures("brisk")
SECOND = timedelta(seconds=1)
RETRY = Fixed(10 * SECOND, max_retries=1)
NOBODY = "no living member works on events/0; the group last had one just now (00:00:00 UTC)."
WORKER = "penstock worker MODULE:OUTBOX"


@dataclass
class Shop:
    """A store with one topic of one partition, a group `g` of one handler, and what was published."""

    engine: StoreEngine
    database: Database
    seen: Seen = field(default_factory=Seen)
    ids: list[str] = field(default_factory=list)

    def publish(self, *values: Any, key: str | None = "k", type: str = "t", **options: Any) -> str:
        """Publish values and return the id of the last."""
        with self.engine.connect() as conn:
            for value in values:
                self.ids.append(self.engine.outbox.publish(conn, type, value, key=key, **options))
            conn.commit()
        return self.ids[-1]

    def log(self, value: Any, key: str | None) -> str:
        """Publish a value and bring it into the log, behind all that is there, and no further."""
        id = self.publish(value, key=key)
        self.engine.another().drain()
        return id

    def subscribe(self, **options: Any) -> None:
        """Register the handler of `g`."""
        subscribe(self.engine.outbox, "g", self.seen, **{"retry": RETRY} | options)

    def drain(self) -> None:
        """Drain once."""
        self.engine.outbox.drain()

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        self.engine.clock.advance(timedelta(seconds=seconds))

    def change(self, statement: str) -> None:
        """Change something behind Penstock's back."""
        with self.engine.connect() as conn:
            conn.execute(statement)
            conn.commit()

    def trim(self, before: int) -> None:
        """Delete the oldest records, as retention does."""
        store = self.engine.outbox.store
        trim(store, store.log.topic("events"), [OffsetRange(0, 0, before)], unless=lambda tx: False)

    def why(self, subject: str, **options: Any) -> list[Answer]:
        """Ask, in the engine's time."""
        return why(self.database, subject, clock=self.engine.clock, **options)

    def one(self, subject: str, **options: Any) -> Answer:
        """Ask, where there is one answer."""
        (answer,) = self.why(subject, **options)
        return answer

    def member(self) -> Member:
        """Let a member join that serves nothing yet."""
        member = Member(self.database, ClusterSettings.load(), self.engine.clock)
        member.join()
        return member

    def owner(self) -> Member:
        """Let a member join and take all of `g` that has work, as one that drains does."""
        member, topic = self.member(), self.engine.outbox.log.topic("events")
        GroupStore(self.engine.outbox.store, self.engine.clock, group="g", topic=topic, owner=member.id).take(
            member.living
        )
        return member

    def worker(self, *filter: str, pins: frozenset[int] | None = None, shares: bool = True) -> SharingMember:
        """Let a member join that serves slots and `g`, as a running worker does."""
        member = SharingMember(self.database, ClusterSettings.load(), self.engine.clock)
        group = self.database.look(lambda tx: tx.rows("delivery", "group_find", name="g"))[0][0]
        topic = self.engine.outbox.log.topic("events").id
        member.serve(Serves(True, (ServedGroup(group, filter or ("events:*",), (topic,)),), pins))
        member.join()
        if shares:
            member.rebalance()
        return member


@pytest.fixture
def shop(engine: StoreEngine) -> Iterator[Shop]:
    """Give a shop whose topic has one partition."""
    in_one_partition(engine)
    database = engine.database()
    yield Shop(engine, database)
    database.close()


def called(member: Member) -> str:
    """Return a member as the sentences name it."""
    (pid,) = {row[2] for row in _members(member) if row[0] == member.id}
    return f"member {member.id[:8]} (process {pid})"


def _members(member: Member) -> list[tuple[Any, ...]]:
    return member._database.look(lambda tx: tx.rows("membership", "member_list", now_ms=0, host="", host_ms=0))


# --- before the log ----------------------------------------------------------------------------


def test_a_scheduled_record_is_not_due(shop: Shop) -> None:
    id = shop.publish(1, at=timedelta(hours=3))
    answer = shop.one(id)
    assert answer.sentence == f"{id} (key k) is scheduled: it becomes due in 3 h (03:00:00 UTC)."
    assert (answer.code, answer.kind, answer.group) == (Code.NOT_DUE, QuestionKind.ID, None)
    assert answer.until == shop.engine.clock.now() + timedelta(hours=3)
    assert shop.one("k").sentence == f"k is scheduled: its next event, {id}, becomes due in 3 h (03:00:00 UTC)."


def test_a_scheduled_record_that_is_due_waits_for_the_move(shop: Shop) -> None:
    id = shop.publish(1, at=10 * SECOND)
    shop.advance(15)
    assert shop.one(id).code is Code.NOT_SEQUENCED
    assert shop.one(id).sentence == (
        f"{id} (key k) is not in the log yet: it became due 5 s ago (00:00:10 UTC), and no living member "
        "sequences the events of slot 209."
    )


def test_a_staged_record_is_not_sequenced(shop: Shop) -> None:
    id = shop.publish(1)
    shop.advance(150)
    answer = shop.one(id)
    assert answer.sentence == (
        f"{id} (key k) is not in the log yet: it was published 2 min ago (00:00:00 UTC), and no living "
        "member sequences the events of slot 209."
    )
    assert (answer.code, answer.commands) == (Code.NOT_SEQUENCED, (WORKER,))
    assert answer.since == shop.engine.clock.now() - 150 * SECOND
    member = shop.member()
    member.take()
    answer = shop.one("k")
    assert answer.sentence == (
        f"k is not in the log yet: its next event, {id}, was published 2 min ago (00:00:00 UTC); slot "
        f"209 is sequenced by {called(member)}."
    )
    assert answer.commands == ()


def test_a_slot_about_to_be_taken_is_told(shop: Shop) -> None:
    shop.subscribe()
    shop.drain()
    id = shop.publish(1)
    shop.owner()
    shop.worker()
    assert shop.one(id).sentence.endswith("; slot 209 is sequenced by a member that is about to take it.")


# In memory a writer shuts readers out.
@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_an_open_transaction_may_hold_it(shop: Shop, kind: str) -> None:
    with shop.engine.connect() as conn:
        if kind == "postgres":
            conn.execute("SET application_name = 'shop'")
            conn.commit()
        id = shop.engine.outbox.publish(conn, "t", 1, key="k")
        shop.engine.outbox.publish(conn, "t", 1, key="k", at=SECOND)
        answer, of_key = shop.one(id), shop.one("k")
        pid = conn.info.backend_pid if kind == "postgres" else None
        conn.rollback()
    who = rf"process {pid} \(shop, open for \d+ \w+, idle in transaction, last statement at [\d:]+ UTC\)"
    who = who if kind == "postgres" else "another process"
    said = rf"visible, but a transaction that may hold it is still open: {who}\."
    assert re.fullmatch(f"record {id} is not {said}", answer.sentence)
    assert re.fullmatch(f"no record of key k is {said}", of_key.sentence)
    assert answer.code is of_key.code is Code.OPEN_TRANSACTION
    assert (shop.one(id).code, shop.one("k").code) == (Code.UNKNOWN, Code.UNKNOWN)


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_the_oldest_of_several_open_transactions_is_named(shop: Shop) -> None:
    with shop.engine.connect() as first, shop.engine.connect() as second:
        shop.engine.outbox.publish(first, "t", 1, key="k")
        shop.engine.outbox.publish(second, "t", 1, key="k", at=10 * SECOND)
        sentence = shop.one("k").sentence
        assert f"open: process {first.info.backend_pid} (" in sentence
    assert sentence.endswith("), the oldest of 2.")


def test_what_reads_the_stage_is_no_writer(shop: Shop) -> None:
    with shop.engine.connect() as conn:
        conn.execute("SELECT * FROM penstock_staged").fetchall()
        assert shop.one("k").code is Code.UNKNOWN


# --- in the log, and a person or a time is in the way -------------------------------------------


def failed(shop: Shop, **options: Any) -> tuple[str, str]:
    """Publish two records of a key, the first of which fails, and one of another key; return the two."""
    shop.seen.failing = [1]
    shop.subscribe(**options)
    first = shop.publish(1)
    second = shop.publish(2)
    shop.publish(3, key="other")
    shop.drain()
    return first, second


def test_a_failed_record_is_parked_and_the_next_of_its_key_is_behind_it(shop: Shop) -> None:
    first, second = failed(shop)
    shop.worker()
    shop.advance(4)
    parked, behind = shop.one(first), shop.one(second)
    state = "failed once (OrderDeclined: 1) and is tried again in 6 s (00:00:10 UTC)."
    assert parked.sentence == f"{first} (key k) waits in group g: it {state}"
    assert behind.sentence == (f"{second} (key k) waits in group g behind events/0/0 of the same key, which {state}")
    assert (parked.code, behind.code) == (Code.PARKED, Code.BEHIND)
    assert parked.until == behind.until == from_ms(shop.engine.clock.now_ms() + 6000)
    assert (parked.group, parked.place, parked.also, parked.commands) == ("g", "events/0/0", (), ())
    of_key = shop.one("k")
    assert of_key.sentence == f"k waits in group g: its record events/0/0 {state}"
    assert (of_key.code, of_key.kind, of_key.id) == (Code.PARKED, QuestionKind.KEY, first)
    assert shop.one("other").sentence == (
        "no record of other waits in group g: the last one, events/0/2, was delivered."
    )


def test_a_parked_record_without_members_says_both(shop: Shop) -> None:
    first, _ = failed(shop)
    answer = shop.one(first)
    assert answer.sentence == (
        f"{first} (key k) waits in group g: it failed once (OrderDeclined: 1) and is due in 10 s (00:00:10 UTC)."
    )
    assert answer.also == (NOBODY,)
    assert answer.commands == (WORKER,)


def test_a_snoozed_record_is_put_off(shop: Shop) -> None:
    subscribe(shop.engine.outbox, "g", lambda record: Snooze(timedelta(days=3)))
    id = shop.publish(1)
    shop.drain()
    shop.worker()
    answer = shop.one(id)
    assert answer.code is Code.PARKED
    assert answer.sentence == (
        f"{id} (key k) waits in group g: it was snoozed by its handler and is tried again in 3 days "
        "(2026-01-04 00:00:00 UTC)."
    )


def test_a_parked_record_that_is_due_is_in_work(shop: Shop) -> None:
    first, second = failed(shop)
    shop.advance(10)
    member = shop.owner()
    assert shop.one(first).code is Code.IN_WORK
    assert shop.one(first).sentence == (
        f"{first} (key k) waits in group g: it failed once (OrderDeclined: 1) and is tried again now; "
        f"{called(member)} works on it."
    )
    assert shop.one(second).code is Code.BEHIND
    assert shop.one(second).sentence == (
        f"{second} (key k) waits in group g behind events/0/0 of the same key, which failed once "
        "(OrderDeclined: 1) and is tried again now."
    )


def test_a_record_retried_alone_lets_its_key_go_on(shop: Shop) -> None:
    first, second = failed(shop, on_failure="alone")
    shop.worker()
    assert (shop.one(first).code, shop.one(second).code) == (Code.PARKED, Code.DELIVERED)
    assert shop.one("k").sentence == (
        "k waits in group g: its record events/0/0 failed once (OrderDeclined: 1) and is tried again in 10 s "
        "(00:00:10 UTC)."
    )


def test_a_key_is_told_of_with_all_its_unsettled_records(shop: Shop) -> None:
    """Behind the one that failed, still in the log, staged, and scheduled."""
    failed(shop)
    shop.log(5, key="k")
    shop.publish(6, 7)
    shop.publish(8, 9, at=timedelta(hours=1))
    in_group, staged, later = shop.why("k")
    assert (in_group.code, in_group.unsettled) == (Code.PARKED, 3)
    assert in_group.also[:2] == (
        "1 more record of the key waits behind it, up to events/0/1.",
        "1 more record of the key is still to be read from the log, up to events/0/3.",
    )
    assert (staged.code, staged.unsettled) == (Code.NOT_SEQUENCED, 2)
    assert staged.also == ("1 more event of the key is staged after it.",)
    assert (later.code, later.unsettled) == (Code.NOT_DUE, 2)
    assert later.also == ("1 more event of the key is scheduled after it.",)


def test_a_key_is_told_of_with_records_that_are_retried_alone_and_dead_ones(shop: Shop) -> None:
    shop.seen.failing = [1, 2, 3]
    shop.subscribe(on_failure="alone")
    shop.publish(1)
    shop.drain()
    shop.advance(10)
    shop.publish(2, 3, 4)
    shop.drain()
    answer = shop.one("k")
    assert (answer.code, answer.unsettled) == (Code.PARKED, 3)
    texts = " ".join([answer.sentence, *answer.also])
    assert "record events/0/0 became a dead letter" in texts
    for offset in (1, 2):
        assert f"its record events/0/{offset} failed once (OrderDeclined: {offset + 1})" in texts
    assert answer.commands[-1] == "penstock dead list --group g --key k"


def held(shop: Shop) -> tuple[str, str]:
    first, second = failed(shop)
    shop.advance(10)
    shop.drain()
    shop.advance(7200)
    shop.worker()
    return first, second


def decisions(id: str) -> tuple[str, ...]:
    return tuple(f"penstock dead {verb} --group g --id {id}" for verb in ("requeue", "discard"))


def test_a_dead_letter_holds_its_key(shop: Shop) -> None:
    first, second = held(shop)
    answer, behind = shop.one(first), shop.one(second)
    death = "became a dead letter 2 h ago (00:00:10 UTC) after 2 failures (OrderDeclined: 1)"
    assert answer.sentence == (
        f"{first} (key k) is held in group g: it {death}; later records of its key wait until you requeue "
        "or discard it."
    )
    assert behind.sentence == (
        f"{second} (key k) waits in group g behind events/0/0 of the same key, which {death} and holds the key."
    )
    assert (answer.code, behind.code) == (Code.HELD, Code.BEHIND)
    assert answer.commands == behind.commands == decisions(first)
    assert answer.since == behind.since == shop.engine.clock.now() - timedelta(hours=2)
    assert shop.one("k").sentence == (
        f"k is held in group g: its record events/0/0 {death}; later records of its key wait until you "
        "requeue or discard it."
    )
    third = shop.publish(4)
    shop.member().take()
    assert shop.one(third).code is Code.NOT_SEQUENCED


def test_a_record_in_the_log_behind_a_dead_letter_is_behind_it(shop: Shop) -> None:
    first, _ = held(shop)
    shop.engine.outbox.log.append("events", [a_record("k", id="late")])
    answer = shop.one("late", kind=QuestionKind.ID)
    assert answer.code is Code.BEHIND
    assert answer.sentence.startswith(
        "late (key k) waits in group g behind events/0/0 of the same key, which became a dead letter"
    )
    assert answer.commands == decisions(first)


def test_a_requeued_record_is_in_work_again(shop: Shop) -> None:
    first, _ = held(shop)
    dead.requeue(shop.database, DeadSelection(group="g", all=True), clock=shop.engine.clock)
    assert shop.one(first).sentence == (
        f"{first} (key k) waits in group g: it was requeued and is tried again now; a member is about to take it."
    )


def test_a_dead_letter_that_holds_nothing_is_dead(shop: Shop) -> None:
    subscribe(shop.engine.outbox, "g", lambda record: Cancel("no such customer"))
    id, keyless = shop.publish(1), shop.publish(1, key=None)
    shop.drain()
    shop.advance(60)
    answer = shop.one(id)
    assert answer.sentence == (
        f"{id} (key k) was given up in group g: it became a dead letter 60 s ago (00:00:00 UTC) (no such "
        "customer); later records of its key are not blocked."
    )
    assert (answer.code, answer.commands) == (Code.DEAD, decisions(id))
    assert shop.one(keyless).sentence == (
        f"{keyless} was given up in group g: it became a dead letter 60 s ago (00:00:00 UTC) (no such customer)."
    )
    assert shop.one("k").code is Code.DEAD
    assert shop.one("k").id == id


def test_a_dead_letter_holds_its_key_only_while_the_key_waits_for_it(shop: Shop) -> None:
    """Not one beside the one that holds it, and not after a reset that has dropped what waited."""

    def handle(record: Record) -> Any:
        return Cancel("never mind") if record.value == 0 else shop.seen(record)

    shop.seen.failing = [1]
    subscribe(shop.engine.outbox, "g", handle, retry=Fixed(SECOND, max_retries=0))
    shop.publish(0, 1, 2)
    shop.drain()
    assert [shop.one(id).code for id in shop.ids] == [Code.DEAD, Code.HELD, Code.BEHIND]
    reset(shop.database, "g", topic="events", to="latest", drop_parked=True, clock=shop.engine.clock)
    assert [shop.one(id).code for id in shop.ids] == [Code.DEAD, Code.DEAD, Code.DELIVERED]
    assert shop.one(shop.ids[2]).sentence.endswith(" or the group was reset past it.")


def test_a_dead_letter_whose_lane_is_gone_holds_nothing(shop: Shop) -> None:
    first, _ = held(shop)
    shop.change("DELETE FROM penstock_lane")
    assert shop.one(first).code is Code.DEAD


# --- in the log, and the group is in the way ----------------------------------------------------


def logged(shop: Shop, *values: Any, **options: Any) -> str:
    """Let the group be there and the records be in the log, but not be delivered; return the last."""
    shop.subscribe()
    shop.drain()
    id = shop.publish(*values or (1,), **options)
    shop.engine.another().drain()  # it has no handlers
    return id


def test_a_paused_group_is_told(shop: Shop) -> None:
    first, _ = failed(shop)
    id = shop.publish(4, key="new")
    shop.engine.another().drain()
    shop.change(f"UPDATE penstock_group SET paused_ms = {shop.engine.clock.now_ms()}")
    shop.advance(5)
    shop.worker()
    answer = shop.one(id)
    assert answer.sentence == (f"{id} (key new) waits in group g: the group was paused 5 s ago (00:00:00 UTC).")
    assert (answer.code, answer.commands, answer.also) == (Code.PAUSED, ("penstock groups resume g",), ())
    assert answer.since == shop.engine.clock.now() - 5 * SECOND
    assert shop.one(first).code is Code.PARKED
    assert shop.one(first).also == ("the group was paused 5 s ago (00:00:00 UTC).",)
    assert shop.one("other").code is Code.DELIVERED


def test_a_group_without_a_member_is_told(shop: Shop) -> None:
    id = logged(shop)
    answer = shop.one(id)
    assert answer.sentence == f"{id} (key k) waits in group g: {NOBODY}"
    assert (answer.code, answer.commands) == (Code.NO_MEMBER, (WORKER,))
    assert answer.since == shop.engine.clock.now()
    shop.change("UPDATE penstock_group SET seen_ms = 0")
    answer = shop.one(id)
    assert answer.sentence == f"{id} (key k) waits in group g: no living member works on events/0."
    assert answer.since is None


def test_an_owner_whose_lease_has_run_out_is_no_member(shop: Shop) -> None:
    id = logged(shop)
    shop.owner()
    assert shop.one(id).code is Code.IN_WORK
    shop.advance(31)
    assert shop.one(id).code is Code.NO_MEMBER


def test_an_owner_whose_process_is_gone_is_no_member(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    id = logged(shop)
    shop.owner()
    monkeypatch.setattr(Process, "is_surely_dead", lambda self: True)
    assert shop.one(id).code is Code.NO_MEMBER


def test_a_member_that_has_just_come_is_about_to_take_it(shop: Shop) -> None:
    """Before anybody has shared out, and before the group knows a filter."""
    id = logged(shop)
    shop.worker(shares=False)
    answer = shop.one(id)
    assert answer.code is Code.IN_WORK
    assert answer.sentence.endswith("; a member is about to take it.")


def test_members_that_are_pinned_elsewhere_are_told(shop: Shop) -> None:
    id = logged(shop)
    shop.worker(pins=frozenset({7}))
    answer = shop.one(id)
    assert answer.code is Code.NO_MEMBER
    assert answer.sentence == (
        f"{id} (key k) waits in group g: no member works on events/0: the one that serves the group is "
        f"pinned to "
        "other partitions (--partitions)."
    )


def test_a_member_with_other_handlers_is_told(shop: Shop) -> None:
    id = logged(shop)
    first = shop.worker("events:a", "events:t")
    assert shop.one(id).code is Code.IN_WORK
    shop.worker("events:t", shares=False)
    assert shop.one(id).code is Code.IN_WORK
    shop.database.run(lambda tx: tx.change("membership", "member_leave", id=first.id))
    answer = shop.one(id)
    assert answer.code is Code.FILTER_DIFFERS
    assert answer.sentence == (
        f"{id} (key k) waits in group g: 1 living member that serves it has handlers other than the "
        "group's (events:a, events:t), as during a rolling deploy; the group takes over the new handlers "
        "within seconds, once no member with the old ones is left."
    )


def test_a_type_that_no_handler_takes_is_passed_over(shop: Shop) -> None:
    id = logged(shop, type="other.thing")
    shop.worker("events:order.*", "events:t")
    coming = shop.one(id)
    assert coming.sentence == (
        f"{id} (key k) is not for group g: none of its handlers (events:order.*, events:t) takes the type "
        "other.thing; it will be passed over."
    )
    shop.drain()
    past = shop.one(id)
    assert past.sentence.endswith("takes the type other.thing; it was passed over.")
    assert coming.code is past.code is Code.NO_HANDLER


def test_a_predicate_or_another_filter_leaves_a_doubt(shop: Shop) -> None:
    id = logged(shop, type="other")
    shop.drain()
    sure = f"{id} (key k) was delivered to group g, which has passed events/0/0"
    assert shop.one(id).sentence == f"{sure}, unless none of its handlers wanted it."
    worker = shop.worker("events:?big")
    assert shop.one(id).sentence == f"{sure}, unless none of its handlers wanted it."
    worker.leave()
    shop.change("UPDATE penstock_group SET filters = '[]'")
    shop.worker("events:other")
    assert shop.one(id).sentence == f"{sure}."
    assert shop.one(id).code is Code.DELIVERED
    shop.change("UPDATE penstock_group SET created_ms = created_ms + 1")
    later = "the group, which was created later, began at the end of the log."
    assert shop.one(id).sentence == f"{sure}, unless {later}"


def test_a_topic_that_no_group_reads_is_told(shop: Shop) -> None:
    id = shop.publish(1)
    shop.drain()
    answer = shop.one(id)
    assert answer.sentence == f"record {id} is not delivered: no group reads topic events."
    assert (answer.code, answer.group) == (Code.NO_HANDLER, None)
    assert shop.one("k").sentence == "k is not delivered: no group reads topic events."
    subscribe(shop.engine.outbox, "elsewhere", Seen(), topic="others")
    shop.publish(1, topic="others")
    shop.drain()
    answer = shop.one(id, group="elsewhere")
    assert answer.sentence == f"record {id} is not delivered: group elsewhere does not read topic events."
    with pytest.raises(UnknownGroup):
        shop.why(id, group="none")


def test_the_bounds_are_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    failed(shop)
    id = shop.publish(4, key="new")
    shop.engine.another().drain()
    shop.owner()
    assert shop.one(id).code is Code.IN_WORK
    monkeypatch.setattr(bounds, "ENTRIES_BOUND", 1)
    answer = shop.one(id)
    assert answer.sentence == (
        f"{id} (key new) waits in group g: 1 key with 2 records wait already in the partitions of the "
        "same member; above 10,000 keys or 1 records it reads no more, until some of them are "
        "delivered, requeued or discarded."
    )
    assert (answer.code, answer.commands) == (Code.BOUNDS, ("penstock lanes --group g",))
    assert shop.one("g").code is Code.BOUNDS
    monkeypatch.setattr(bounds, "ENTRIES_BOUND", 2)
    monkeypatch.setattr(bounds, "LANES_BOUND", 0)
    assert shop.one(id).code is Code.BOUNDS


def test_care_after_a_crash_is_told(shop: Shop) -> None:
    id = logged(shop, 1, 2)
    shop.owner()
    shop.advance(31)
    shop.owner()
    assert shop.one(shop.ids[0]).code is Code.IN_WORK  # one lost owner is no reason for care
    trial = Trial(deaths=4, alone={0: 1})
    shop.change(f"UPDATE penstock_cursor SET trial = '{trial.encode()}'")
    answer = shop.one(shop.ids[0])
    assert answer.sentence == (
        f"{shop.ids[0]} (key k) waits in group g: it was being handled when 4 workers died, so it waits "
        "to be tried alone; 1 worker died while it was tried alone, and after 3 its key is parked."
    )
    assert shop.one(id).sentence == (
        f"{id} (key k) waits in group g: 4 workers died at work on events/0, so its records are tried "
        "a few at a time until the cause is found; 1 record of events/0 comes before it."
    )
    assert answer.code is shop.one(id).code is Code.CAREFUL
    assert shop.one("g").code is Code.CAREFUL


def test_what_is_next_is_in_work(shop: Shop) -> None:
    shop.subscribe()
    shop.drain()
    shop.log(1, key="a")
    shop.log(2, key="b")
    id = shop.log(3, key="a")
    last = shop.log(4, key=None)
    member = shop.owner()
    assert shop.one(shop.ids[1]).sentence == (
        f"{shop.ids[1]} (key b) is being handled in group g, or is next: 1 record of events/0 comes before "
        f"it; {called(member)} works on it."
    )
    assert shop.one("a").sentence == (
        f"a is being handled in group g, or is next: no record comes before it in events/0; {called(member)} "
        f"works on it."
    )
    assert shop.one(id).sentence == (
        f"{id} (key a) waits in group g behind events/0/0 of the same key, which is being handled or is "
        f"next; {called(member)} works on it."
    )
    assert shop.one(last).sentence == (
        f"{last} is being handled in group g, or is next: 3 records of events/0 come before it; "
        f"{called(member)} works on it."
    )
    assert [shop.one(each).code for each in shop.ids] == [Code.IN_WORK, Code.IN_WORK, Code.BEHIND, Code.IN_WORK]


def test_what_is_done_beyond_the_cursor_is_delivered(shop: Shop) -> None:
    """A partition is worked by many hands: the cursor has a bit for each record that is done beyond it."""
    logged(shop, 1)
    shop.log(2, key="b")
    last = shop.log(3, key="c")
    again = shop.log(4, key="b")
    shop.change("UPDATE penstock_cursor SET passed = '02'")
    shop.owner()
    codes = [shop.one(id).code for id in shop.ids]
    assert codes == [Code.IN_WORK, Code.DELIVERED, Code.IN_WORK, Code.IN_WORK]
    assert shop.one("b").id == again
    assert "or is next: 1 record of events/0 comes before it; " in shop.one(last).sentence
    assert shop.one("g").sentence == "group g is working on events: 3 records are to be read in 1 partition."


def test_a_lane_without_records_is_in_nobodys_way(shop: Shop) -> None:
    id = logged(shop)
    due_ms = shop.engine.clock.now_ms() + 1000
    shop.change(
        "INSERT INTO penstock_lane (group_id, topic_id, partition, lane, whole, late, alone, failures, "
        "due_ms, reason) SELECT group_id, topic_id, 0, 'k', false, false, "
        f"-1, 1, {due_ms}, 'x' FROM penstock_cursor"
    )
    shop.owner()
    assert shop.one(id).code is shop.one("k").code is Code.IN_WORK


# --- at its end ---------------------------------------------------------------------------------


def test_a_record_that_retention_has_removed_is_gone(shop: Shop) -> None:
    shop.subscribe()
    id = shop.publish(1)
    shop.advance(60)
    young = shop.publish(2)
    shop.drain()
    shop.trim(1)
    answer = shop.one(id)
    assert answer.sentence == (
        f"record {id} is not in the log any more, if it ever was: retention has deleted records of its time."
    )
    assert answer.code is Code.GONE
    later = young[:8] + "-ffff" + young[13:]
    assert (shop.one(young).code, shop.one(later).code) == (Code.DELIVERED, Code.UNKNOWN)


def test_a_dead_letter_is_found_when_its_record_is_gone(shop: Shop) -> None:
    first, _ = held(shop)
    shop.engine.lose(0)
    assert shop.one(first).code is Code.HELD
    assert (shop.one("k").code, shop.one("k").id) == (Code.HELD, first)


def test_a_waiting_record_is_found_when_only_its_copy_is_left(shop: Shop) -> None:
    first, second = failed(shop)
    shop.trim(3)
    assert shop.engine.offsets() == []
    assert (shop.one(first).code, shop.one(second).code) == (Code.PARKED, Code.BEHIND)
    assert shop.one("k").code is Code.PARKED


def test_an_erased_record_is_told(shop: Shop) -> None:
    id = logged(shop, owner="me")
    erase(shop.database, "me", clock=shop.engine.clock)
    answer = shop.one(id)
    assert (answer.code, answer.group) == (Code.ERASED, None)
    assert answer.sentence == f"record {id} was erased: events/0/0 is empty now and is not delivered."


def test_a_discarded_record_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Surely when it was named by its id, perhaps when it was one of many, and not after a reset."""
    monkeypatch.setenv("PENSTOCK_ACTOR", "ada")
    first, second = held(shop)
    shop.change("UPDATE penstock_group SET filters = '[[\"events:*\"]]'")
    dead.discard(shop.database, DeadSelection(group="g", id=first), clock=shop.engine.clock)
    shop.advance(60)
    answer = shop.one(first)
    assert answer.sentence == (
        f"{first} (key k) was a dead letter in group g, discarded 60 s ago (02:00:10 UTC) by ada."
    )
    assert (answer.code, answer.since) == (Code.DISCARDED, shop.engine.clock.now() - 60 * SECOND)
    reset(shop.database, "g", topic="events", to="earliest", clock=shop.engine.clock)
    assert shop.one(first).code is Code.NO_MEMBER
    shop.seen.failing = [2]
    for _ in range(2):
        shop.drain()
        shop.advance(10)
    sure = f"{first} (key k) was delivered to group g, which has passed events/0/0, unless "
    doubt = "the group was reset past it."
    assert (shop.one(first).code, shop.one(second).code) == (Code.DELIVERED, Code.HELD)
    assert shop.one(first).sentence == f"{sure}it was among the dead letters that were discarded or {doubt}"
    dead.discard(shop.database, DeadSelection(group="g", key="k"), clock=shop.engine.clock)
    letters = "it was among the dead letters that were discarded"
    assert shop.one(second).sentence.endswith(f"0/1, unless {letters} or {doubt}")
    assert shop.one("other").sentence.endswith(f"was delivered, unless {doubt}")


def test_a_cancelled_record_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ACTOR", "ada")
    id = shop.publish(1, at=10 * SECOND)
    scheduled.cancel(shop.database, scheduled.ScheduledSelection(id=id), clock=shop.engine.clock)
    answer = shop.one(id)
    assert answer.code is Code.CANCELLED
    assert answer.sentence == f"record {id} was scheduled, and cancelled just now (00:00:00 UTC) by ada."


def test_an_unknown_id_and_a_cancelled_one_are_not_there(shop: Shop) -> None:
    id = shop.publish(1, at=10 * SECOND)
    with shop.engine.connect() as conn:
        assert shop.engine.outbox.cancel(conn, id) == 1
        conn.commit()
    answer = shop.one(id)
    assert answer.sentence == (
        f"there is no record {id}: it was never published, or was rolled back or cancelled before it was due."
    )
    assert (answer.code, answer.kind) == (Code.UNKNOWN, QuestionKind.ID)
    nothing = shop.one("k")
    assert nothing.sentence == (
        "there is no record of key k: it was never published, or was rolled back or cancelled before it was due."
    )
    assert (nothing.code, nothing.kind) == (Code.UNKNOWN, QuestionKind.KEY)


# --- what it is taken for, and where it is looked for --------------------------------------------


def test_a_subject_is_an_id_then_a_group_then_a_key(shop: Shop) -> None:
    shop.subscribe()
    id = shop.publish(1, key="g")
    shop.publish(2, key=id)
    shop.drain()
    assert [shop.one(each).kind for each in (id, "g")] == [QuestionKind.ID, QuestionKind.GROUP]
    assert shop.one("g", kind=QuestionKind.KEY).place == "events/0/0"
    assert shop.one(id, kind=QuestionKind.KEY).place == "events/0/1"
    with pytest.raises(UnknownGroup):
        shop.why(id, kind=QuestionKind.GROUP)
    shop.engine.outbox.log.append("events", [a_record("a", id="r-1")])
    assert (shop.one("r-1").kind, shop.one("r-1").place) == (QuestionKind.ID, "events/0/2")


def test_each_group_has_its_answer(shop: Shop) -> None:
    first, _ = failed(shop)
    subscribe(shop.engine.outbox, "h", Seen())
    shop.drain()
    assert [(each.group, each.code) for each in shop.why(first)] == [("g", Code.PARKED), ("h", Code.DELIVERED)]
    assert [each.group for each in shop.why(first, group="h")] == ["h"]
    assert [(each.group, each.code) for each in shop.why("k")] == [("g", Code.PARKED), ("h", Code.DELIVERED)]


def test_a_topic_narrows_a_key(shop: Shop) -> None:
    subscribe(shop.engine.outbox, "g", shop.seen)
    subscribe(shop.engine.outbox, "g", shop.seen, topic="others", id="others")
    shop.publish(1)
    id = shop.publish(2, topic="others")
    shop.drain()
    shop.publish(3)
    assert [each.place for each in shop.why("k")] == ["events/0/0", "others/209/0", None]
    assert [each.place for each in shop.why("k", topic="others")] == ["others/209/0"]
    assert shop.one(id, topic="events").code is Code.UNKNOWN
    assert shop.one("k", topic="none").code is Code.UNKNOWN
    assert [each.place for each in shop.why("g")] == ["events", "others"]


def test_an_id_is_looked_for_from_its_time_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound says so when it cuts, and no bound finds all."""
    shop.subscribe()
    log = shop.engine.outbox.log
    early = shop.publish(1, at=SECOND)
    log.append("events", [a_record(str(n), timestamp_ms=n) for n in range(2000)])
    id = shop.publish(2)
    shop.advance(1)
    shop.drain()
    monkeypatch.setattr(finder, "WALK", 10)
    assert shop.one(early).place == "events/0/2000"
    assert shop.one(id).place == "events/0/2001"
    log.append("events", [a_record("x", timestamp_ms=shop.engine.clock.now_ms()) for _ in range(20)])
    late = shop.publish(3, at=SECOND)
    log.append("events", [a_record("x", timestamp_ms=shop.engine.clock.now_ms() + 1) for _ in range(1030)])
    shop.advance(1)
    shop.drain()
    unknown = shop.one(late)
    assert unknown.code is Code.UNKNOWN
    assert unknown.sentence == f"record {late} is not in the part of the log that was searched."
    assert unknown.also == ("only 10 records of each partition were searched; search all with --scan.",)
    assert shop.one(late, everything=True).place == "events/0/3052"


def test_a_search_that_was_cut_says_so(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the log, of the stage, and for ids that tell no time."""
    monkeypatch.setattr(finder, "WALK", 3)
    shop.engine.outbox.log.append("events", [a_record("x", id=f"r-{n}") for n in range(4)])
    assert [shop.one(f"r-{n}").code for n in (0, 1)] == [Code.UNKNOWN, Code.NO_HANDLER]
    assert (
        shop.one("r-0", kind=QuestionKind.ID).sentence == "record r-0 is not in the part of the log that was searched."
    )
    assert shop.one("r-0", everything=True).code is Code.NO_HANDLER
    assert (
        shop.one("nothing", kind=QuestionKind.KEY).sentence
        == "no record of key nothing is in the part of the log that was searched."
    )
    unknown = "019b76da-a800-7316-939d-3abfcb8ecd68"
    monkeypatch.setattr(finder, "WALK", 5_000)
    shop.publish(1)
    assert shop.one(unknown).also == ()
    monkeypatch.setattr(finder, "STAGED_WALK", 1)
    assert len(shop.one(unknown).also) == 1


def test_a_scan_after_a_trim_looks_at_all_that_is_left(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an id that tells its time, by one that does not, and by the key."""
    monkeypatch.setattr(finder, "WALK", 1)
    log = shop.engine.outbox.log
    log.append("events", [a_record("x", id=f"r-{n}", timestamp_ms=1) for n in range(3)])
    id = shop.log(1, "y")
    log.append("events", [a_record("z", id=f"r-{n}") for n in range(4, 7)])
    shop.trim(2)
    whole: dict[str, Any] = {"everything": True}
    assert [shop.one(each, **whole).place for each in ("r-2", id, "r-6")] == [
        f"events/0/{offset}" for offset in (2, 3, 6)
    ]
    assert [shop.one(each, **whole).place for each in ("x", "y")] == ["events/0/2", "events/0/3"]
    gone = shop.one("r-1", kind=QuestionKind.ID, **whole)
    assert (gone.code, gone.also) == (Code.GONE, ()), "nothing was left out"


def test_a_key_tells_the_partition(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    database = engine.database()
    shop = Shop(engine, database)
    shop.subscribe()
    id = shop.publish(1)
    shop.drain()
    assert shop.one(id).place == shop.one(id, key="k").place == "events/209/0"
    assert shop.one(id, key="another").code is Code.UNKNOWN
    database.close()


# --- whole groups -------------------------------------------------------------------------------


def test_a_group_with_nothing_to_do_is_told(shop: Shop) -> None:
    shop.subscribe()
    shop.publish(1)
    shop.drain()
    worker = shop.worker()
    answer = shop.one("g")
    assert answer.sentence == "group g has nothing to do on events: all that its handlers want is delivered."
    assert (answer.code, answer.kind, answer.place, answer.also) == (Code.DELIVERED, QuestionKind.GROUP, "events", ())
    worker.leave()
    assert shop.one("g").also == (NOBODY,)


def test_what_is_committed_and_not_in_the_log_is_told_of_a_group(shop: Shop) -> None:
    """A stranger was told "all is delivered" with 250 committed events that no worker had moved."""
    shop.subscribe()
    shop.publish(1)
    shop.drain()
    shop.publish(2, 3)
    answer = shop.one("g")
    assert answer.code is Code.NOT_SEQUENCED
    assert answer.sentence.startswith("group g waits on events: 2 events are committed but not in the log yet")


def test_a_group_that_waits_is_told(shop: Shop) -> None:
    failed(shop)
    shop.worker()
    answer = shop.one("g")
    assert answer.sentence == (
        "group g waits on events: 1 key waits to be tried again, the first in 10 s (00:00:10 UTC)."
    )
    assert (answer.code, answer.commands) == (Code.PARKED, ("penstock lanes --group g",))
    shop.advance(10)
    assert shop.one("g").sentence == ("group g is working on events: 1 key waits for its turn.")
    shop.drain()
    answer = shop.one("g")
    assert answer.sentence == (
        "group g waits on events: 1 key is held by dead letters until you requeue or discard them."
    )
    assert (answer.code, answer.commands) == (Code.HELD, ("penstock lanes --group g --held",))
    shop.publish(5, key="new")
    shop.engine.another().drain()
    answer = shop.one("g")
    assert (answer.code, len(answer.also)) == (Code.IN_WORK, 1)
    assert answer.sentence == "group g is working on events: 1 record is to be read in 1 partition."
    shop.change(f"UPDATE penstock_group SET paused_ms = {shop.engine.clock.now_ms()}")
    answer = shop.one("g")
    assert answer.code is Code.PAUSED
    assert answer.sentence == "group g waits on events: the group was paused just now (00:00:10 UTC)."


def test_a_group_that_reads_nothing_is_told(shop: Shop) -> None:
    shop.change("INSERT INTO penstock_group (name, created_ms) VALUES ('new', 0)")
    answer = shop.one("new")
    assert answer.sentence == "group new does not read any topic yet: no worker with its handlers has run."
    assert answer.code is Code.NO_HANDLER


# --- one snapshot -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_all_is_read_at_one_moment(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is moved and delivered between two of its statements does not make it disappear."""
    shop.subscribe()
    id = shop.publish(1)
    look = finder.Finder.by_id

    def interrupted(self: finder.Finder, *args: Any) -> Any:
        self._tx.rows("operate", "staged_count", walk=1)
        shop.drain()
        return look(self, *args)

    monkeypatch.setattr(finder.Finder, "by_id", interrupted)
    assert shop.one(id).code is Code.NOT_SEQUENCED
    monkeypatch.undo()
    assert shop.one(id).code is Code.DELIVERED


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_it_waits_for_no_writer_and_holds_up_none(shop: Shop) -> None:
    shop.subscribe()
    id = shop.publish(1)
    with shop.engine.connect() as conn:
        shop.engine.outbox.publish(conn, "t", 2, key="k")
        assert shop.one(id).code is Code.NOT_SEQUENCED
        conn.commit()


def test_it_asks_the_system_clock_too(shop: Shop) -> None:
    shop.subscribe()
    id = shop.publish(1)
    shop.drain()
    (answer,) = why(shop.database, id, clock=SYSTEM)
    assert answer.code is Code.DELIVERED


def test_a_worker_at_work_is_told(shop: Shop) -> None:
    """In real time: what a handler has in hand is in work, and the next of its key behind it."""
    outbox, begun, go_on, stop = shop.engine.another(clock=SYSTEM), Event(), Event(), Event()

    @outbox.handler(group="g")
    def handle(record: Record) -> None:
        begun.set()
        assert go_on.wait(60)

    first = shop.publish(1)
    second = shop.publish(2)
    worker = Thread(target=outbox.run, kwargs={"until": stop})
    worker.start()
    try:
        assert begun.wait(60)
        codes = [[each.code for each in why(shop.database, id)] for id in (first, second, "k", "g")]
        assert codes == [[Code.IN_WORK], [Code.BEHIND], [Code.IN_WORK], [Code.IN_WORK]]
        go_on.set()
        wait_until(lambda: why(shop.database, second)[0].code is Code.DELIVERED, "it is delivered")
        codes = [[each.code for each in why(shop.database, subject)] for subject in (first, "k", "g")]
        assert codes == [[Code.DELIVERED]] * 3
    finally:
        go_on.set()
        stop.set()
        worker.join()


@pytest.mark.parametrize("key", ["#1", "#7#k", "\\x00", "a\nb", "\0", "", "\udcff", "ключ", "'; DROP TABLE x; --"])
def test_strange_keys_are_found(shop: Shop, key: str) -> None:
    """Those that come from outside too: a log takes any bytes."""
    shop.seen.failing = [1]
    shop.subscribe()
    records = [replace(a_record(key, id=id), data=value) for id, value in (("r-1", b"1"), ("r-2", b"2"))]
    shop.engine.outbox.log.append("events", records)
    shop.drain()
    assert [shop.one(id).code for id in ("r-1", "r-2")] == [Code.PARKED, Code.BEHIND]
    assert shop.one(key, kind=QuestionKind.KEY).code is Code.PARKED
