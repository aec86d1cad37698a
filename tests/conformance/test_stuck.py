"""Every way we know in which something gets stuck, made for real: `why` and `doctor --url` name the cause.

`SITUATIONS` is the table. Each row says how the situation is made (a function that leaves it standing and
gives what to ask about), what `why` must answer and what would change it, and what the doctor must say
without being asked. Members are rows that the real code writes; where the inside of a worker matters, one
runs in a thread. Those with processes of their own are in `test_stuck_processes.py`.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from penstock import Cancel, Fixed, Outbox, Record, Snooze
from penstock.clock import SYSTEM, Clock
from penstock.delivery.cursor_state import Trial
from penstock.delivery.notes import CatchUp
from penstock.delivery.store import GroupStore
from penstock.membership import member as membership
from penstock.membership.member import ClusterSettings
from penstock.membership.process import Process, _started
from penstock.membership.process import this_process as real_process
from penstock.membership.serving import MemberStatus, ServedGroup, Serves
from penstock.membership.sharing import SharingMember
from penstock.operate import groups, topics
from penstock.operate.doctor import DoctorFinding, PartState
from penstock.operate.retention import retain
from penstock.operate.store_doctor import examine_store
from penstock.operate.why import Answer, Code, member_reasons, unlogged, why
from penstock.worker import status
from penstock.worker.group import bounds
from tests.conformance.engines import StoreEngine, driver_of
from tests.conformance.next_release import add_next
from tests.crash.waiting import wait_until
from tests.suites.outbox_suite import in_one_partition
from tests.suites.records import a_record
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")
HOUR = timedelta(hours=1)
LATER = Fixed(HOUR, max_retries=3)


@dataclass
class Scene:
    """A store with a topic of one partition, in a time of the test's own unless a worker runs."""

    engine: StoreEngine
    monkeypatch: pytest.MonkeyPatch
    clock: Clock
    open: ExitStack = field(default_factory=ExitStack)

    @property
    def outbox(self) -> Outbox:
        return self.engine.outbox

    def publish(self, *values: Any, key: str | None = "k", type: str = "t", **options: Any) -> str:
        """Publish values and return the id of the last."""
        with self.outbox.transaction() as conn:
            return [self.outbox.publish(conn, type, each, key=key, **options) for each in values][-1]

    def handle(self, body: Callable[[Record], Any] = lambda record: None, match: Any = None, **options: Any):  # type: ignore[no-untyped-def]
        """Register a handler of group g."""
        self.outbox.handler(match, group="g", id="send_mail", **{"retry": LATER} | options)(body)

    def log(self, *values: Any, **options: Any) -> str:
        """Publish, and bring it into the log without delivering it."""
        id = self.publish(*values or (1,), **options)
        self.engine.another().drain()
        return id

    def drain(self) -> None:
        self.outbox.drain()

    def advance(self, **span: float) -> None:
        self.engine.clock.advance(timedelta(**span))

    def change(self, statement: str) -> None:
        """Change something behind Penstock's back."""
        with self.engine.connect() as conn:
            conn.execute(statement)
            conn.commit()

    def borrow(self) -> Any:
        """Give a connection of the caller's until the end."""
        return self.open.enter_context(self.engine.connect())

    def member(self, *filter: str, pins: frozenset[int] | None = None) -> SharingMember:
        """Let a member join that moves events and serves g, as a running worker does."""
        member = SharingMember(self.outbox.store.database, ClusterSettings.load(), self.clock)
        rows = self.outbox.store.database.look(lambda tx: tx.rows("delivery", "group_find", name="g"))
        served = [ServedGroup(row[0], filter or ("events:*",), (self.topic_id,)) for row in rows]
        member.serve(Serves(True, tuple(served), pins))
        member.join()
        member.rebalance()
        member.exchange_slots()
        return member

    def owner(self, wants: Callable[[str], bool] | None = None) -> SharingMember:
        """Let such a member take the partitions, too; if it says what it wants, also what was passed over."""
        member, topic = self.member(), self.outbox.log.topic("events")
        late = None if wants is None else CatchUp(wants, 3_600_000)
        store = GroupStore(self.outbox.store, self.clock, group="g", topic=topic, owner=member.id, catch_up=late)
        store.take_wanted(member.living)
        return member

    @property
    def topic_id(self) -> int:
        return self.outbox.log.topic("events").id

    def worker(self, outbox: Outbox | None = None) -> None:
        """Run a worker until the end, in the world's own time."""
        self.monkeypatch.setenv("PENSTOCK_PROCESSING_SHUTDOWN_TIMEOUT", "0.1")
        self.clock = SYSTEM
        self.open.enter_context(working(outbox or self.real()))

    def real(self) -> Outbox:
        """Give the outbox whose handlers a worker runs."""
        return self.engine.another(SYSTEM)

    def hang(self, outbox: Outbox, *, matches: str = "hang", **options: Any) -> Event:
        """Register a handler that hangs until the end; give what is set once it is called."""
        let_go, called = Event(), Event()
        self.open.callback(let_go.set)

        @outbox.handler(matches, group="g", id="send_mail", **{"retry": LATER} | options)
        def hang(record: Record) -> None:
            called.set()
            let_go.wait(60)

        return called

    def told(self, subject: str) -> list[Answer]:
        return why(self.outbox, subject, clock=self.clock)

    def wait_for(self, subject: str, code: Code) -> None:
        """Wait until `why` says so: a status is as old as a heartbeat."""
        wait_until(lambda: any(each.code is code for each in self.told(subject)), f"why says {code}")

    def findings(self) -> list[DoctorFinding]:
        return examine_store(self.outbox, self.clock)


# --- how each is made: a function that leaves it standing and returns what is asked about -----------------


def staged(scene: Scene) -> str:
    scene.publish(1)
    return "k"


def staged_for_a_group(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    scene.publish(1)
    return "g"


def sequencer_lapsed(scene: Scene) -> str:
    scene.member()
    scene.publish(1)
    scene.advance(seconds=40)
    return "k"


def overdue(scene: Scene) -> str:
    scene.publish(1, at=HOUR)
    scene.advance(hours=2)
    return "k"


def scheduled(scene: Scene) -> str:
    scene.publish(1, at=HOUR)
    return "k"


def unseen_by_key(scene: Scene) -> str:
    scene.monkeypatch.setattr(unlogged, "LONG_MS", 0)
    conn = scene.borrow()
    scene.outbox.publish(conn, "t", 1, key="k")
    scene.open.callback(conn.rollback)
    return "k"


def unseen_by_group(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    unseen_by_key(scene)
    return "g"


def slots_locked(scene: Scene) -> str:
    scene.monkeypatch.setattr(unlogged, "_LOCKED_MS", 0)
    scene.member()
    scene.publish(1)
    conn = scene.borrow()
    conn.execute("SELECT * FROM penstock_slot FOR UPDATE")
    scene.open.callback(conn.rollback)
    return "k"


def cursors_locked(scene: Scene) -> str:
    scene.monkeypatch.setattr(unlogged, "_LOCKED_MS", 0)
    no_member(scene)
    scene.owner()
    conn = scene.borrow()
    conn.execute("SELECT * FROM penstock_cursor FOR UPDATE")
    scene.open.callback(conn.rollback)
    return "k"


def file_locked(scene: Scene) -> str:
    scene.member()
    scene.publish(1)
    conn = scene.borrow()
    conn.execute("BEGIN IMMEDIATE")
    scene.open.callback(conn.rollback)
    return "k"


def move_fails(scene: Scene) -> str:
    scene.change("CREATE TRIGGER full BEFORE INSERT ON penstock_log BEGIN SELECT RAISE(ABORT, 'no room here'); END")
    scene.worker()
    scene.publish(1)
    scene.wait_for("k", Code.TROUBLE)
    return "k"


def settling_fails(scene: Scene) -> str:
    outbox = scene.real()
    outbox.handler(group="g", id="send_mail")(lambda record: None)
    scene.worker(outbox)
    scene.wait_for("g", Code.DELIVERED)
    scene.change(
        "CREATE TRIGGER stuck BEFORE UPDATE OF offset ON penstock_cursor BEGIN SELECT RAISE(ABORT, 'no room here'); END"
    )
    scene.publish(1)
    scene.wait_for("k", Code.TROUBLE)
    return "k"


def process_stopped(scene: Scene) -> str:
    child = subprocess.Popen(["sleep", "60"])
    scene.open.callback(child.wait)
    scene.open.callback(child.kill)
    os.kill(child.pid, signal.SIGSTOP)
    process = Process(real_process().host, child.pid, _started(child.pid) or "")
    scene.monkeypatch.setattr(membership, "this_process", lambda: process)
    wait_until(process.is_stopped, "the child is stopped")
    scene.handle()
    scene.drain()
    scene.log()
    scene.owner()
    return "k"


def paused(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    groups.pause(scene.outbox, "g", clock=scene.clock)
    scene.log()
    scene.member()
    return "k"


def no_member(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    scene.log()
    return "k"


def member_lapsed(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    scene.log()
    scene.owner()
    scene.advance(seconds=40)
    return "k"


def pinned(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    scene.log()
    scene.member(pins=frozenset({7}))
    return "k"


def filter_differs(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    scene.log()
    old = scene.member("events:a", "events:t")
    new = SharingMember(scene.outbox.store.database, ClusterSettings.load(), scene.clock)
    (row,) = scene.outbox.store.database.look(lambda tx: tx.rows("delivery", "group_find", name="g"))
    new.serve(Serves(True, (ServedGroup(row[0], ("events:t",), (scene.topic_id,)),)))
    new.join()
    scene.outbox.store.database.run(lambda tx: tx.change("membership", "member_leave", id=old.id))
    return "k"


def two_programs(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    id = scene.log(type="mail.sent")
    scene.member("events:mail.*")
    scene.advance(seconds=5)
    scene.member("events:bill.*")
    return id


def given_up(scene: Scene) -> str:
    scene.monkeypatch.setenv("PENSTOCK_PROCESSING_CONCURRENCY", "4")
    outbox = scene.real()
    outbox.handler("other", group="other", id="other")(lambda record: None)
    scene.hang(outbox, timeout=0.05)
    scene.worker(outbox)
    for number in range(4):
        scene.publish(1, key=f"k-{number}", type="hang")
    wait_until(lambda: any("given group g up" in each.found for each in scene.findings()), "it is given up")
    scene.publish(1, type="hang")
    scene.wait_for("k", Code.GIVEN_UP)
    return "k"


def hanging(scene: Scene) -> str:
    scene.monkeypatch.setattr(status, "LONG_SECONDS", 0.0)
    scene.monkeypatch.setattr(member_reasons, "SLOW_MS", 0)
    outbox = scene.real()
    called = scene.hang(outbox)
    scene.worker(outbox)
    scene.publish(1, 2, type="hang")
    assert called.wait(60)
    scene.wait_for("k", Code.SLOW_HANDLER)
    return "k"


def hanging_in_a_group(scene: Scene) -> str:
    hanging(scene)
    return "g"


def behind_a_hanging_one(scene: Scene) -> str:
    scene.monkeypatch.setattr(status, "LONG_SECONDS", 0.0)
    outbox = scene.real()
    called = scene.hang(outbox)
    scene.worker(outbox)
    scene.publish(1, type="hang")
    assert called.wait(60)
    id = scene.publish(2, type="hang")
    wait_until(lambda: "send_mail" in scene.told(id)[0].sentence, "the call is told")
    return id


def threads_busy(scene: Scene) -> str:
    scene.monkeypatch.setenv("PENSTOCK_PROCESSING_CONCURRENCY", "1")
    scene.monkeypatch.setattr(status, "LONG_SECONDS", 0.0)
    outbox = scene.real()
    called = scene.hang(outbox)
    scene.worker(outbox)
    scene.publish(1, key="first", type="hang")
    assert called.wait(60)
    scene.publish(1, 2, type="hang")
    scene.wait_for("k", Code.BUSY)
    return "k"


def one_at_a_time(scene: Scene) -> str:
    scene.monkeypatch.setattr(status, "LONG_SECONDS", 0.0)
    outbox = scene.real()
    called = scene.hang(outbox, concurrency=1)
    scene.worker(outbox)
    scene.publish(1, key="first", type="hang")
    assert called.wait(60)
    scene.publish(1, type="hang")
    scene.wait_for("k", Code.BUSY)
    return "k"


def rate(scene: Scene) -> str:
    outbox = scene.real()
    outbox.handler(group="g", id="send_mail", rate="1/h")(lambda record: None)
    scene.worker(outbox)
    scene.publish(1, key="first")
    scene.publish(1, key="second")
    scene.publish(1)
    scene.wait_for("k", Code.RATE)
    return "k"


def fails(record: Record) -> None:
    raise ValueError("no such address")


def parked(scene: Scene) -> str:
    scene.handle(fails)
    scene.publish(1, 2, 3)
    scene.drain()
    scene.member()
    return "k"


def parked_without_member(scene: Scene) -> str:
    scene.handle(fails)
    scene.publish(1)
    scene.drain()
    return "g"


def snoozed(scene: Scene) -> str:
    scene.handle(lambda record: Snooze(HOUR))
    scene.publish(1)
    scene.drain()
    scene.member()
    return "k"


def held(scene: Scene) -> str:
    scene.handle(fails, retry=Fixed(HOUR, max_retries=0))
    scene.publish(1, 2, 3)
    scene.drain()
    scene.member()
    return "k"


def behind_a_dead_letter(scene: Scene) -> str:
    scene.handle(fails, retry=Fixed(HOUR, max_retries=0))
    scene.publish(1)
    id = scene.publish(2)
    scene.drain()
    scene.member()
    return id


def dead(scene: Scene) -> str:
    scene.handle(lambda record: Cancel("no such customer"))
    scene.publish(1, 2)
    scene.drain()
    scene.member()
    return "k"


def session_ended(scene: Scene) -> str:
    """D4: an administrator ends the session of a handler that shares its transaction."""

    def terminated(record: Record) -> None:
        pid = driver_of(record).info.backend_pid
        with scene.engine.connect() as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
            other.commit()

    scene.handle(terminated, transaction=True)
    scene.publish(1)
    scene.drain()
    scene.member()
    return "k"


def bounded(scene: Scene) -> str:
    scene.monkeypatch.setattr(bounds, "ENTRIES_BOUND", 1)
    scene.handle(fails)
    scene.publish(1, 2)
    scene.drain()
    scene.log(1, key="other")
    scene.owner()
    return "other"


def suspect(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    scene.log()
    scene.owner()
    scene.change(f"UPDATE penstock_cursor SET trial = '{Trial(deaths=4, alone={0: 1}).encode()}'")
    return "k"


def by_few(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    scene.log()
    scene.owner()
    scene.change(f"UPDATE penstock_cursor SET trial = '{Trial(deaths=4).encode()}'")
    return "g"


def another_is_tried(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    scene.log()
    member = scene.owner()
    member.tell(MemberStatus(trial_since_ms=scene.clock.now_ms()))
    member.heartbeat()
    return "k"


def no_handler(scene: Scene) -> str:
    scene.handle(match="order.*")
    scene.drain()
    scene.log(type="mail.sent")
    scene.drain()
    scene.member("events:order.*")
    return "k"


def late(scene: Scene) -> str:
    no_handler(scene)
    scene.advance(seconds=40)
    scene.owner(lambda type: True)
    scene.advance(seconds=40)
    return "k"


def unread(scene: Scene) -> str:
    scene.log()
    return "k"


def topic_made_anew(scene: Scene) -> str:
    """D7: deleted and made again, with no worker that could take it up."""
    scene.handle()
    scene.drain()
    scene.member("events:*").leave()
    topics.delete(scene.outbox, "events", clock=scene.clock)
    in_one_partition(scene.engine)
    scene.log()
    return "k"


def topic_made_anew_beside_a_worker(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    scene.member("events:*")
    topics.delete(scene.outbox, "events", force=True, clock=scene.clock)
    in_one_partition(scene.engine)
    scene.outbox.log.append("events", [a_record("k")])
    return "g"


def retention_passed(scene: Scene) -> str:
    scene.handle()
    scene.drain()
    id = scene.log()
    scene.advance(days=9)
    scene.log(2)
    retain(scene.outbox, clock=scene.clock)
    return id


def retention_passed_a_group(scene: Scene) -> str:
    retention_passed(scene)
    return "g"


def retention_is_held(scene: Scene) -> str:
    scene.log()
    log = scene.outbox.log
    log.hold("lake/orders", log.topic("events"), {0: 0})
    scene.advance(days=9)
    return "k"


def schema_behind(scene: Scene) -> str:
    add_next(scene.open.enter_context(scene.monkeypatch.context()))
    return ""


def nobody_listens(scene: Scene) -> str:
    scene.monkeypatch.setenv("PENSTOCK_BELL_ENABLED", "0")
    outbox = scene.real()
    scene.worker(outbox)
    wait_until(lambda: any(each.part == "Bell" for each in scene.findings()), "it is told")
    wait_until(lambda: any("does not hear" in each.found for each in scene.findings()), "the member says so")
    return ""


# --- the table ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Situation:
    """One row: how it is made; what `why` says, with its code, and what changes it; what the doctor says.

    `changes`: a command, a remedy in the words of the answer, or TIME where the answer says until when.
    `code` None: it is not about a record, and `why` is not asked.
    """

    make: Callable[[Scene], str]
    code: Code | None
    why: str
    changes: str
    doctor: str
    kind: str = "sqlite"


TIME = "time"
WORKER = "penstock worker"
SITUATIONS = [
    # made by; the code and the words of why; what changes it; the words of the doctor
    Situation(staged, Code.NOT_SEQUENCED, "no living member sequences", WORKER, "no living member sequences"),
    Situation(staged_for_a_group, Code.NOT_SEQUENCED, "no living member sequences", WORKER,
              "1 event is committed"),
    Situation(sequencer_lapsed, Code.NOT_SEQUENCED, "lease ran out 10 s ago", WORKER,
              "lease ran out 10 s ago"),
    Situation(overdue, Code.NOT_SEQUENCED, "became due 60 min ago", WORKER, "no living member sequences"),
    Situation(scheduled, Code.NOT_DUE, "becomes due in 60 min", TIME, "no living member sequences events"),
    Situation(unseen_by_key, Code.OPEN_TRANSACTION, "may hold it is still open", "still open",
              "may have published", "postgres"),
    Situation(unseen_by_group, Code.OPEN_TRANSACTION, "may have published", "still open",
              "may have published", "postgres"),
    Situation(slots_locked, Code.OPEN_TRANSACTION, "holds locks that workers need", "end it", "holds locks",
              "postgres"),
    Situation(cursors_locked, Code.IN_WORK, "holds locks that workers need", "end it", "holds locks",
              "postgres"),
    Situation(file_locked, Code.OPEN_TRANSACTION, "holds locks that workers need", "end it", "still open"),
    Situation(move_fails, Code.TROUBLE, "no room here", "retries", "sequencing fails and retries"),
    Situation(settling_fails, Code.TROUBLE, "no room here", "retries", "delivery fails and retries"),
    Situation(process_stopped, Code.STOPPED, "its process is stopped", "kill -CONT",
              "is stopped, by a signal"),
    Situation(paused, Code.PAUSED, "the group was paused", "penstock groups resume g",
              "the group was paused"),
    Situation(no_member, Code.NO_MEMBER, "no living member works", WORKER,
              "no living member works on events/0"),
    Situation(member_lapsed, Code.NO_MEMBER, "lease ran out 10 s ago", WORKER, "lease ran out 10 s ago"),
    Situation(pinned, Code.NO_MEMBER, "pinned to other partitions", WORKER, "pinned to other partitions"),
    Situation(filter_differs, Code.FILTER_DIFFERS, "as during a rolling deploy",
              "once no member with the old", "as during a rolling deploy"),
    Situation(two_programs, Code.NO_HANDLER, "two programs under one group name", "give each its own",
              "give each its own group name"),
    Situation(given_up, Code.GIVEN_UP, "calls of handler send_mail hang beyond the time limit",
              "restart that process", "has given group g up"),
    Situation(hanging, Code.SLOW_HANDLER, "handler send_mail has been working on it for",
              "time limit is 600 s", "handler send_mail has been working on events/0/0"),
    Situation(hanging_in_a_group, Code.SLOW_HANDLER, "send_mail has been working on events/0/0 for",
              "time limit is 600 s", "send_mail has been working on events/0/0 for"),
    Situation(behind_a_hanging_one, Code.BEHIND, "which is being handled: handler send_mail",
              "time limit is 600 s", "Group g"),
    Situation(threads_busy, Code.BUSY, "for a free thread of member", "higher processing.concurrency",
              "for a free thread of member"),
    Situation(one_at_a_time, Code.BUSY, "is limited to concurrency=1", "concurrency=1", "concurrency=1"),
    Situation(rate, Code.RATE, "is limited to rate=", TIME, "is limited to rate="),
    Situation(parked, Code.PARKED, "failed once (ValueError: no such address)", TIME, "to be tried again"),
    Situation(parked_without_member, Code.PARKED, "1 key waits to be tried again", WORKER,
              "no living member"),
    Situation(snoozed, Code.PARKED, "was snoozed by its handler", TIME, "to be tried again"),
    Situation(held, Code.HELD, "(ValueError: no such address)", "penstock dead requeue",
              "held by dead letters"),
    Situation(behind_a_dead_letter, Code.BEHIND, "and holds the key", "penstock dead requeue",
              "held by dead"),
    Situation(dead, Code.DEAD, "no such customer", "penstock dead requeue", "2 dead letters wait"),
    Situation(session_ended, Code.PARKED, "SessionEnded: an administrator", TIME, "to be tried again",
              "postgres"),
    Situation(bounded, Code.BOUNDS, "it reads no more", "penstock lanes --group g",
              "it reads no more"),
    Situation(suspect, Code.CAREFUL, "waits to be tried alone", "after 3 its key is parked",
              "4 workers died"),
    Situation(by_few, Code.CAREFUL, "4 workers died at work on events/0", "until the cause is found",
              "4 workers died at work on events/0"),
    Situation(another_is_tried, Code.CAREFUL, "has started no other calls", "it continues after some seconds",
              "has started no other calls"),
    Situation(no_handler, Code.NO_HANDLER, "takes the type mail.sent; it was passed over",
              "register a handler", "was passed over"),
    Situation(late, Code.IN_WORK, "waits to be delivered late in group g", WORKER, "no living member"),
    Situation(unread, Code.NO_HANDLER, "no group reads topic events", WORKER, "no group reads it"),
    Situation(topic_made_anew, Code.NEW_TOPIC, "has no cursor in topic events yet", WORKER,
              "has no cursor in topic"),
    Situation(topic_made_anew_beside_a_worker, Code.NEW_TOPIC, "was created again",
              "takes it over within seconds", "has no cursor in topic events yet"),
    Situation(retention_passed, Code.GONE, "retention has deleted records of its time", "retention",
              "it had not passed 1 of the deleted records"),
    Situation(retention_passed_a_group, Code.NO_MEMBER, "no living member works", WORKER,
              "1 record that the group had not read was deleted"),
    Situation(retention_is_held, Code.NO_HANDLER, "no group reads topic events", WORKER,
              "reader lake/orders has not read them"),
    Situation(schema_behind, None, "", "", "the database has schema version 17, but this Penstock needs"),
    Situation(nobody_listens, None, "", "", "does not hear the bell and polls instead: bell.enabled is off"),
]  # fmt: skip


def test_the_table_has_enough_rows_and_no_function_is_forgotten() -> None:
    assert len(SITUATIONS) >= 25
    assert len({each.make for each in SITUATIONS}) == len(SITUATIONS)


@pytest.fixture
def scene(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Give a store whose topic has one partition."""
    in_one_partition(engine)
    made = Scene(engine, monkeypatch, engine.clock)
    with made.open:
        yield made


@pytest.mark.parametrize(
    ("kind", "situation"),
    [pytest.param(each.kind, each, id=each.make.__name__) for each in SITUATIONS],
    indirect=["kind"],
)
def test_the_cause_is_named_and_what_changes_it(scene: Scene, situation: Situation) -> None:
    subject = situation.make(scene)
    if situation.code is not None:
        _check_answers(scene.told(subject), situation)
    findings = scene.findings()
    told = [f"{each.part}: {each.found} {each.remedy}" for each in findings if each.state is not PartState.OK]
    assert any(situation.doctor in each for each in told), "\n".join(told)


def _check_answers(answers: list[Answer], situation: Situation) -> None:
    said = [" ".join([each.sentence, *each.also]) for each in answers]
    (first, *_) = answers
    assert first.code is situation.code, said
    assert situation.why in said[0], said
    if situation.changes == TIME:
        assert first.until is not None, first
    else:
        assert situation.changes in " ".join([said[0], *first.commands]), first
