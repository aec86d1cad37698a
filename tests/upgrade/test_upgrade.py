"""A store of the last landed version is brought up to date and goes on as if nothing had happened.

What it holds is told in `story.py`, what became of each record in each group stands in `v6.json`.
"""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest

from penstock.cli import main
from penstock.operate import audit, dead, erase, groups, lanes, reset, retention, scheduled, topics
from penstock.operate.why import why
from penstock.testing import FakeClock
from tests.crash.waiting import wait_until
from tests.upgrade.kept import ACCOUNT, MADE_AT, RETRY_AT, SCHEDULED_AT, VERSION, KeptStore, chain, expected
from tests.upgrade.running_clock import RunningClock
from tests.working import working

# How the old version writes, letter by letter: its publishers may still run when the tables are newer.
OLD_STAGE = """
INSERT INTO penstock_staged (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
"""
OLD_SCHEDULE = """
INSERT INTO penstock_scheduled (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
"""  # noqa: E501 - as it stood in its file
AS_STAGED = "slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner"


# --- migrating ---------------------------------------------------------------------------------


def test_migrating_applies_what_is_newer_than_the_store_and_leaves_no_drift(
    kept: KeptStore, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = [title for title in chain() if int(title.split()[0]) > VERSION]
    assert kept.outbox.migrate() == newer
    assert kept.outbox.migrate() == []
    with pytest.raises(SystemExit) as ended:
        main(["migrate", "--url", kept.url, "--check"])
    assert (ended.value.code, capsys.readouterr()) == (0, ("up to date\n", ""))


def test_migrating_changes_no_record_and_nobodys_place(kept: KeptStore) -> None:
    before = kept.contents()
    kept.outbox.migrate()
    after = kept.contents()
    for table in ("log", "staged", "scheduled", "head", "topic", "token", "audit", "member"):
        assert len(after[f"penstock_{table}"]) == len(before[f"penstock_{table}"]) > 0
    ids = [each["id"][kept.kind] for each in ACCOUNT["records"]]
    found = {id for rows in after.values() for row in rows for id in row if id in ids}
    gone = {"alone-copied/1", "alone-copied/2", "taken-back/0"}
    assert found == {kept.id(each["label"]) for each in ACCOUNT["records"] if each["label"] not in gone}


# --- going on ----------------------------------------------------------------------------------


def test_what_was_not_done_arrives_once_in_the_order_of_each_key(upgraded: KeptStore) -> None:
    """At once what is free, later what is due, and what a person holds back once it is let go."""
    database, clock = upgraded.outbox.database, upgraded.clock
    upgraded.subscribe()
    assert upgraded.drained() == expected("now", "last")
    assert upgraded.drained() == {}
    assert upgraded.drain_to(SCHEDULED_AT - timedelta(milliseconds=1)) == {}
    assert upgraded.drain_to(SCHEDULED_AT) == expected("scheduled")
    assert upgraded.drain_to(RETRY_AT - timedelta(milliseconds=1)) == {}
    assert upgraded.drain_to(RETRY_AT) == expected("due")
    assert groups.resume(database, "search", clock=clock)
    assert upgraded.drained() == expected("paused")
    for key in ("h-1", "h-2"):
        assert dead.requeue(database, dead.DeadSelection(group="mail", key=key), clock=clock).count == 1
    assert upgraded.drained() == expected("dead", "held")
    assert upgraded.drain_to(RETRY_AT + timedelta(days=1)) == {}


def test_a_worker_serves_the_upgraded_store(upgraded: KeptStore, brisk: None) -> None:
    outbox = upgraded.another(RunningClock(RETRY_AT + timedelta(minutes=1)))
    upgraded.subscribe(outbox=outbox)
    due = expected("now", "last", "scheduled", "due")
    count = sum(len(labels) for by_key in due.values() for labels in by_key.values())
    with working(outbox):
        wait_until(lambda: len(upgraded.seen) >= count, "all that is due has arrived")
    arrived = upgraded.arrivals()
    # What is retried alone keeps no order with the rest of its key.
    for by_key in (*arrived.values(), *due.values()):
        for key in ("l-2", "#9"):
            by_key.get(key, []).sort()
    assert arrived == due


def test_what_a_killed_worker_owned_is_taken_when_its_lease_is_over(kept: KeptStore) -> None:
    """Nobody can know earlier that a process of another machine is dead. What it had in hand is marked."""
    early = FakeClock(MADE_AT + timedelta(seconds=10))
    outbox = kept.another(early)
    outbox.migrate()
    kept.subscribe("stock", "mail", outbox=outbox)
    assert outbox.drain().sequenced == 0
    assert "stock" not in kept.arrivals()
    assert kept.arrivals()["mail"]["n-1"] == ["unread/0", "unread/1"]
    early.advance(timedelta(minutes=1))
    outbox.drain()
    assert kept.arrivals()["stock"] == expected("now")["stock"]
    assert kept.arrivals()["mail"]["n-1"] == ["unread/0", "unread/1", "unread/2"]
    marked = {record.value for group, record in kept.seen if group == "stock" and record.redelivered}
    assert marked >= {"slow-lane/0", "hole/0", "hole/2"}


def test_what_a_worker_of_the_version_before_had_in_hand_is_marked_whatever_its_row_says(
    kept: KeptStore,
) -> None:
    """It goes on when the tables are newer, and does not write down how far it hands out."""
    early = FakeClock(MADE_AT + timedelta(minutes=2))
    outbox = kept.another(early)
    outbox.migrate()
    change(kept, "UPDATE penstock_cursor SET handed_to = 0, kept_back = ''")
    kept.subscribe("stock", outbox=outbox)
    outbox.drain()
    marked = {record.value for group, record in kept.seen if group == "stock" and record.redelivered}
    assert marked >= {"slow-lane/0", "hole/0", "hole/2"}


def test_what_a_worker_had_in_hand_that_stopped_before_the_upgrade_is_marked(kept: KeptStore) -> None:
    """It gave back its partitions in doubt, as one does whose commit was."""
    change(kept, "UPDATE penstock_cursor SET owner = NULL, crashes = 1 WHERE owner IS NOT NULL")
    early = FakeClock(MADE_AT + timedelta(minutes=2))
    outbox = kept.another(early)
    outbox.migrate()
    change(kept, "DELETE FROM penstock_member")
    kept.subscribe("stock", outbox=outbox)
    outbox.drain()
    marked = {record.value for group, record in kept.seen if group == "stock" and record.redelivered}
    assert marked >= {"slow-lane/0", "hole/0", "hole/2"}


def change(kept: KeptStore, statement: str) -> None:
    """Run a statement on the tables."""
    with closing(kept.connect()) as conn:
        conn.execute(statement)
        conn.commit()


def test_failures_are_counted_on(upgraded: KeptStore) -> None:
    upgraded.subscribe("mail", "ledger")
    upgraded.drain_to(RETRY_AT)
    attempts = {record.value: record.attempt for _, record in upgraded.seen}
    assert attempts["parked/0"] == attempts["alone/0"] == attempts["slow-named/0"] == 2
    assert attempts["alone-copied/0"] == 3
    assert attempts["snoozed/0"] == attempts["parked/1"] == attempts["requeued/0"] == 1


def test_failures_are_counted_on_whatever_the_error_is_called(upgraded: KeptStore) -> None:
    """`class slow(Exception)`, raised without a word: the reason of its lane is that of a slow lane."""
    upgraded.subscribe("mail")
    upgraded.drain_to(RETRY_AT)
    (record,) = (record for _, record in upgraded.seen if record.value == "slow-bare/0")
    assert (record.attempt, record.redelivered) == (2, True)


def test_headers_are_as_they_were_written_and_edited(upgraded: KeptStore) -> None:
    upgraded.subscribe("mail")
    upgraded.drained()
    headers = {record.value: record.headers for _, record in upgraded.seen}
    assert headers["edited/0"] == {"from": "a person"}
    assert headers["edited/1"] == {"from": "old"}
    assert headers["unread/2"] == {"trace": "00-1"}


def test_what_is_published_now_follows_what_was_published_before(upgraded: KeptStore) -> None:
    upgraded.subscribe("mail")
    with upgraded.outbox.transaction() as conn:
        for key in ("n-1", "p-1", "h-1"):
            upgraded.outbox.publish(conn, "story.told", "new", key=key)
    first = upgraded.drained()["mail"]
    assert first["n-1"] == ["unread/0", "unread/1", "unread/2", "new"]
    assert not first.keys() & {"p-1", "h-1"}
    assert upgraded.drain_to(RETRY_AT)["mail"]["p-1"][-2:] == ["parked/4", "new"]


def test_a_token_stands_for_its_event_still(upgraded: KeptStore) -> None:
    staged = len(upgraded.contents()["penstock_staged"])
    with upgraded.outbox.transaction() as conn:
        again = upgraded.outbox.publish(conn, "story.told", "again", token="order-1")
    assert again == upgraded.id("token/0") == upgraded.outbox.published(None, "order-1")
    assert upgraded.outbox.published(None, "erased") is None
    assert len(upgraded.contents()["penstock_staged"]) == staged


def test_a_publisher_of_the_old_version_is_heard_after_the_upgrade(upgraded: KeptStore) -> None:
    """It never looks at the version, so what it writes must fit the newer tables."""
    place = "?" if upgraded.kind == "sqlite" else "%s"
    conn = upgraded.connect()
    (row,) = conn.execute(
        f"SELECT {AS_STAGED} FROM penstock_staged WHERE id = '{upgraded.id('unread/2')}'"
    ).fetchall()
    staged, due = (
        (*row[:3], id, *row[4:6], f'"{id}"'.encode(), *row[7:]) for id in ("old-staged", "old-due")
    )
    conn.execute(OLD_STAGE.replace("?", place), staged)
    conn.execute(OLD_SCHEDULE.replace("?", place), (*due, upgraded.clock.now_ms() + 60_000))
    conn.commit()
    conn.close()
    upgraded.subscribe("mail")
    assert upgraded.drained()["mail"]["n-1"] == ["unread/0", "unread/1", "unread/2", "old-staged"]
    upgraded.clock.advance(timedelta(minutes=1))
    assert upgraded.drained() == {"mail": {"n-1": ["old-due"]}}


# --- what persons do ---------------------------------------------------------------------------


def test_lanes_say_what_they_wait_for(upgraded: KeptStore) -> None:
    found = lanes.lanes(upgraded.outbox.database, limit=100, clock=upgraded.clock).items
    by_key = {(each.group, each.key, each.alone is not None): each for each in found}
    parked = {place for place, each in by_key.items() if each.state.value == "parked"}
    mail = {"p-1", "#1", "\\x01", "\x01binary", "ключ", "#7#o-1", "s-1", "s-2", "z-1", "o-2"}
    assert parked == {
        *(("mail", key, False) for key in (*mail, upgraded.id("keyless/0"))),
        *(("ledger", key, True) for key in ("l-1", "l-2", "#9")),
    }
    assert {by_key[place].until for place in parked} == {RETRY_AT}
    held = {key for (_, key, _), each in by_key.items() if each.state.value == "held"}
    assert held == {"h-1", "h-2"}
    slow = by_key["stock", "slow", False]
    assert (slow.state.value, slow.waiting, slow.failures) == ("slow", 130, 0)
    assert by_key["mail", "s-1", False].reason == "slow: the mail server takes its time"
    assert by_key["mail", "s-2", False].reason == "slow"
    assert by_key["mail", "p-1", False].waiting == 3
    assert by_key["ledger", "l-1", True].failures == 2


# What keeps a record from a group, by its label.
REASONS = {
    ("mail", "parked/0"): "parked",
    ("mail", "parked/1"): "behind",
    ("mail", "slow-bare/0"): "parked",
    ("mail", "held/0"): "held",
    ("mail", "held/1"): "behind",
    ("mail", "cancelled/0"): "dead",
    ("mail", "skipped/0"): "dead",
    ("mail", "read/0"): "delivered",
    ("mail", "unread/0"): "no_member",
    ("search", "unread/0"): "paused",
    ("ledger", "alone/0"): "parked",
    ("stock", "slow-lane/0"): "no_member",
    ("stock", "filler/0"): "delivered",
    (None, "unread/2"): "not_sequenced",
    (None, "due/0"): "not_due",
    (None, "far/0"): "not_due",
    (None, "erased/1"): "erased",
    (None, "taken-back/0"): "cancelled",
}


def test_why_has_a_sentence_for_each_record(upgraded: KeptStore) -> None:
    database = upgraded.outbox.database
    answers = {
        (group, label): {
            each.group: each for each in why(database, upgraded.id(label), clock=upgraded.clock)
        }[group]
        for group, label in REASONS
    }
    assert {asked: answer.code.value for asked, answer in answers.items()} == REASONS
    assert all(answer.sentence.endswith(".") for answer in answers.values())


def test_groups_are_where_they_were(upgraded: KeptStore) -> None:
    found = {
        each.name: each
        for each in groups.groups(upgraded.outbox.database, limit=100, clock=upgraded.clock).items
    }
    assert {name: (each.lag, each.waiting, each.held, each.dead) for name, each in found.items()} == {
        "mail": (7, 17, 2, 5),
        "search": (7, 0, 0, 0),
        "ledger": (136, 3, 0, 1),
        "replay": (142, 0, 0, 1),
        "stock": (2, 1, 0, 0),
    }
    assert [name for name, each in found.items() if each.paused_at] == ["search"]
    assert {each.members for each in found.values()} == {0}
    cursors = groups.partitions(upgraded.outbox.database, "stock", limit=10).items
    assert [(each.partition, each.passed) for each in cursors if each.passed] == [(3, 2)]


def test_dead_letters_are_listed_shown_requeued_and_discarded(upgraded: KeptStore) -> None:
    database, clock = upgraded.outbox.database, upgraded.clock
    listed = dead.dead_letters(database, group="mail", limit=100).items
    assert {(each.id, each.holding) for each in listed} == {
        *((upgraded.id(f"{name}/0"), True) for name in ("held", "held-empty")),
        *((upgraded.id(f"{name}/0"), False) for name in ("skipped", "cancelled", "owned-dead")),
    }
    (shown,) = dead.show_by_id(database, upgraded.id("held/0"))
    assert (shown.record.value, shown.letter.reason) == ("held/0", "Fatal: there is no such address")
    upgraded.subscribe("mail")
    upgraded.drained()
    assert dead.discard(database, dead.DeadSelection(group="mail", key="h-1"), clock=clock).count == 1
    assert upgraded.drained() == {"mail": {"h-1": ["held/1", "held/2", "held/3"]}}
    done = dead.requeue(database, dead.DeadSelection(group="mail", key="c-1"), clock=clock)
    assert (done.count, done.out_of_order) == (1, 1)
    assert upgraded.drained() == {"mail": {"c-1": ["cancelled/0"]}}
    dead.discard(database, dead.DeadSelection(group="mail", all=True), clock=clock)
    assert dead.dead_letters(database, group="mail").items == []


def test_a_group_is_reset_to_the_earliest_record_and_has_all_of_them_again(upgraded: KeptStore) -> None:
    database, clock = upgraded.outbox.database, upgraded.clock
    reset.reset(database, "mail", topic="events", to="earliest", clock=clock)
    upgraded.subscribe("mail")
    again: dict[str, list[str]] = {}
    for record in ACCOUNT["records"]:
        gone = record["label"] in ("erased/0", "erased/1", "taken-back/0")
        if record["topic"] == "events" and record["fates"]["mail"] not in ("scheduled", "far") and not gone:
            again.setdefault(record["key"] or record["label"], []).append(record["label"])
    assert upgraded.drained() == {"mail": again}
    letters = dead.dead_letters(database, group="mail", limit=100).items
    assert {(each.holding, each.reset_at is not None) for each in letters} == {(False, True)}


def test_a_group_is_reset_to_the_latest_record_and_skips_what_it_has_not_read(upgraded: KeptStore) -> None:
    database, clock = upgraded.outbox.database, upgraded.clock
    done = reset.reset(database, "ledger", topic="ledger", to="latest", clock=clock)
    assert done.skipped == 136
    upgraded.subscribe("ledger")
    assert upgraded.drained() == {"ledger": {"l-2": ["alone/3"], "slow": ["slow-lane/staged"]}}
    assert upgraded.drain_to(RETRY_AT) == {"ledger": expected("due")["ledger"] | {"d-1": ["due/1"]}}


def test_retention_deletes_what_all_have_read_and_keeps_what_waits(upgraded: KeptStore) -> None:
    database, clock = upgraded.outbox.database, upgraded.clock
    assert topics.show(database, "ledger").retention_ms == timedelta(hours=6) // timedelta(milliseconds=1)
    upgraded.subscribe("ledger", "replay", "stock")
    upgraded.drained()
    clock.advance(timedelta(hours=7))
    records = topics.show(database, "ledger").records
    assert retention.retain(database, clock=clock).deleted == {"ledger": records}
    late = upgraded.drained()
    assert late.pop("ledger") == expected("due")["ledger"] | {"d-1": ["due/1"]}
    assert late == {group: {"d-1": ["due/1"]} for group in ("replay", "stock")}


def test_an_owner_is_erased_from_every_place(upgraded: KeptStore) -> None:
    database, clock = upgraded.outbox.database, upgraded.clock
    places = {"staged": 1, "scheduled": 1, "logged": 3, "waiting": 1, "dead": 1}
    erased = erase.erase(database, "customer-7", clock=clock)
    assert {name: getattr(erased, name) for name in places} == places
    assert erase.count_owner(database, "customer-7").count == 0
    upgraded.subscribe("mail")
    upgraded.drain_to(RETRY_AT)
    arrived = {record.value for _, record in upgraded.seen}
    assert "owned-parked/1" in arrived
    assert not arrived & {"owned-read/0", "owned-parked/0", "owned-dead/0", "owned-staged/0", "owned-far/0"}


def test_scheduled_events_are_listed_hastened_and_cancelled(upgraded: KeptStore) -> None:
    database, clock = upgraded.outbox.database, upgraded.clock
    listed = scheduled.scheduled(database).items
    assert [each.id for each in listed[2:]] == [upgraded.id("far/0"), upgraded.id("owned-far/0")]
    assert {each.id for each in listed[:2]} == {upgraded.id("due/0"), upgraded.id("due/1")}
    scheduled.run_now(database, upgraded.id("far/0"), clock=clock)
    with upgraded.outbox.transaction() as conn:
        assert upgraded.outbox.cancel(conn, owner="customer-7") == 1
    upgraded.subscribe("mail")
    assert upgraded.drained()["mail"]["d-1"] == ["far/0"]
    assert upgraded.drain_to(SCHEDULED_AT) == {"mail": {"d-1": ["due/0"]}}
    assert scheduled.scheduled(database).items == []


def test_the_audit_goes_on_where_it_was(upgraded: KeptStore) -> None:
    database = upgraded.outbox.database
    before = audit.audit(database, limit=100).items
    assert [each.action for each in reversed(before)] == [
        "topic create",
        "topic set",
        "erase",
        *["dead requeue"] * 3,
        "dead skip",
        "dead discard",
        "group reset",
        "group pause",
        "erase",
        "scheduled cancel",
    ]
    assert {each.actor for each in before} == {"operator"}
    groups.resume(database, "search", clock=upgraded.clock, actor="another")
    newest, *rest = audit.audit(database, limit=100).items
    assert (newest.action, newest.actor, rest) == ("group resume", "another", before)
