"""Delivery to a group: what is read, handed out and settled; bounds, care after a crash, repetitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from penstock import Record, points
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.delivery.cursor_state import Trial, stored_trial
from penstock.delivery.lane import lane_of
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Dead, Parked, Passed, Verdict
from penstock.errors import StoreUnreachable
from penstock.log.sql.log import SqlLog
from penstock.log.store import store_of
from penstock.worker.group import bounds
from penstock.worker.group.delivery import GroupDelivery
from penstock.worker.group.suspects import ALONE_SECONDS, QUIET_SECONDS, Trials
from penstock.worker.group.transactional import TransactionalDelivery
from penstock.worker.handler import HandlerTask
from tests.conformance.engines import StoreEngine
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition
from tests.suites.records import some_records


@pytest.fixture(params=["memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    opened = open_database(engine.url, Names())
    yield opened
    opened.close()


Make = Callable[..., GroupDelivery]


@pytest.fixture
def make(engine: StoreEngine, database: Database) -> Make:
    """Give a way to make the delivery of a group as a member of some name."""
    in_one_partition(engine)

    def made(
        owner: str = "me", handler: Callable[[Record], Any] | None = None, gone: Sequence[str] = ()
    ) -> GroupDelivery:
        outbox = engine.another()
        subscribe(outbox, "g", handler or Seen())
        (subscription,) = outbox._handlers.subscriptions()
        log = SqlLog(database, engine.clock)
        topic = log.topic("events")
        store = GroupStore(
            store_of(database), engine.clock, group="g", topic=topic, owner=owner, gone=lambda tx: list(gone)
        )
        trials = Trials(engine.clock, dedicated=True)
        return GroupDelivery(log, store, subscription, engine.clock, trials)

    return made


def fill(mine: GroupDelivery, store: StoreEngine) -> bool:
    return mine.fill(store.outbox.log.ends(store.outbox.log.topic("events")))


def taken(mine: GroupDelivery, store: StoreEngine, *living: str) -> list[HandlerTask]:
    """Take what nobody living owns, read, and hand out."""
    mine.take(lambda tx: list(living))
    fill(mine, store)
    return mine.start(1000)


def values(tasks: list[HandlerTask]) -> list[Any]:
    return [task.record.value for task in tasks]


def finish(mine: GroupDelivery, tasks: list[HandlerTask], verdict: Verdict | None = None) -> None:
    for task in tasks:
        mine.finish(task, verdict or Passed())


def publish(store: StoreEngine, *pairs: tuple[str, int]) -> None:
    for key, value in pairs:
        publish_values(store, value, key=key)
    store.outbox.drain()


def test_of_each_key_one_record_is_out_and_the_next_follows(make: Make, engine: StoreEngine) -> None:
    publish(engine, ("a", 1), ("a", 2), ("b", 3))
    mine = make()
    tasks = taken(mine, engine)
    assert values(tasks) == [1, 3]
    assert mine.start(1000) == []
    finish(mine, tasks)
    assert values(mine.start(1000)) == [2]


def test_what_is_to_be_let_go_counts_no_more_for_the_share(make: Make, engine: StoreEngine) -> None:
    publish(engine, ("a", 1))
    mine = make()
    assert mine.partitions.share() == 0.0
    tasks = taken(mine, engine)
    assert (len(mine.partitions), mine.partitions.share()) == (1, 1.0)
    mine.let_go()
    mine.release_idle()
    # something is out: it is ours still, but not for long
    assert (len(mine.partitions), mine.partitions.share()) == (1, 0.0)
    finish(mine, tasks)
    mine.release_idle()
    assert len(mine.partitions) == 0


def test_what_a_lost_owner_had_is_handed_out_again_and_marked(make: Make, engine: StoreEngine) -> None:
    """P6: all at once, whatever became of that owner; and unmarked once it is settled."""
    publish(engine, ("a", 1), ("b", 2), ("c", 3))
    taken(make("lost"), engine)
    mine = make("heir", gone=["lost"])
    tasks = taken(mine, engine, "heir")
    assert [(task.record.value, task.record.redelivered) for task in tasks] == [(1, True), (2, True), (3, True)]
    assert crashes(engine) == 1
    finish(mine, tasks)
    mine.settle()
    assert (crashes(engine), trial(engine)) == (0, Trial())
    publish(engine, ("a", 4), ("b", 5))
    tasks = taken(mine, engine, "heir")
    assert [(task.record.value, task.record.redelivered) for task in tasks] == [(4, False), (5, False)]


def test_what_came_to_a_waiting_lane_since_is_marked_as_well(make: Make, engine: StoreEngine) -> None:
    """P6: the lost owner had it out together with those that waited; the cursor has passed it meanwhile."""
    publish(engine, ("a", 1), ("a", 2))
    first = make("first")
    finish(first, taken(first, engine), Parked(engine.clock.now_ms(), 1, "failed"))
    first.settle()
    first.release()
    publish(engine, ("a", 3))
    lost = make("lost")
    lost.take(lambda tx: [])
    fill(lost, engine)
    assert values(list(lost.start(1000, 100)[0].run())) == [1, 2, 3]
    mine = make("heir", gone=["lost"])
    seen, tasks = [], taken(mine, engine, "heir")
    for _ in range(3):
        seen += [(task.record.value, task.record.redelivered) for task in tasks]
        finish(mine, tasks)
        tasks = next_tasks(mine)
    assert seen == [(1, True), (2, True), (3, True)]
    assert (crashes(engine), trial(engine)) == (0, Trial())


def next_tasks(mine: GroupDelivery) -> list[HandlerTask]:
    """Settle and hand out what comes next, as the delivery loop does in a process where nothing runs."""
    trials = mine.suspects.trials
    mine.settle()
    trials.settled()
    tasks = mine.start(1000)
    if not tasks and trials.is_asked:
        trials.grant(quiet=True)
        tasks = mine.start(1000)
        trials.withdraw()
    return tasks


def deadly(mine: GroupDelivery, store: StoreEngine, value: int) -> list[HandlerTask]:
    """Work until a record is in work that kills the process; return what is in work then."""
    tasks = taken(mine, store, "nobody") or next_tasks(mine)
    while value not in values(tasks):
        assert tasks, "it never came to that record"
        finish(mine, tasks)
        tasks = next_tasks(mine)
    return tasks


def test_a_record_that_kills_every_process_is_put_off_and_nobody_else_is(make: Make, engine: StoreEngine) -> None:
    """D1: two deaths with all, one with a few, three with that record alone."""
    publish(engine, *((key, number) for number, key in enumerate("abcdefgh")))
    together = []
    for number in range(6):
        victim = make(f"victim-{number}", gone=[f"victim-{number - 1}"])
        together.append(len(deadly(victim, engine, 2)))
    assert together == [8, 8, 8, 1, 1, 1]
    mine = make("heir", gone=["victim-5"])
    tasks = taken(mine, engine, "heir") or next_tasks(mine)
    while tasks:
        assert 2 not in values(tasks)
        finish(mine, tasks)
        tasks = next_tasks(mine)
    assert rows(engine, "SELECT count(*) FROM penstock_dead") == [(0,)]
    ((lane, state, due_ms, reason),) = rows(engine, "SELECT lane, state, due_ms, reason FROM penstock_lane")
    assert (lane, state, reason) == ("c", "retrying", "killed its worker 3 times")
    assert due_ms == engine.clock.now_ms() + 60_000
    assert trial(engine) == Trial(epoch=trial(engine).epoch, alone={2: 3})


def test_suspects_of_a_transaction_share_a_unit(make: Make, database: Database, engine: StoreEngine) -> None:
    """After two deaths each had a transaction of its own, and a group did a tenth of its work."""
    publish(engine, *((key, number) for number, key in enumerate("abcdefgh")))
    together = []
    for number in range(3):
        group = make(f"victim-{number}", gone=[f"victim-{number - 1}"])
        group.take(lambda tx: [])
        fill(group, engine)
        (unit,) = TransactionalDelivery(database, group._store, group, engine.clock).start_units(1)
        together.append(len(unit.tasks))
    assert together == [8, 8, 8]
    assert trial(engine).goes_by_few


def test_who_is_put_off_is_tried_again_alone_and_waits_longer_each_time(make: Make, engine: StoreEngine) -> None:
    publish(engine, ("a", 1))
    waits = []
    for number in range(13):
        victim = make(f"victim-{number}", gone=[f"victim-{number - 1}"])
        if not (taken(victim, engine, "nobody") or next_tasks(victim)):
            ((due_ms,),) = rows(engine, "SELECT due_ms FROM penstock_lane")
            waits.append(due_ms - engine.clock.now_ms())
            engine.clock.advance(timedelta(milliseconds=waits[-1]))
            assert values(next_tasks(victim)) == [1]
    assert waits == [*(60_000 * 2**n for n in range(6)), 3_600_000]
    mine = make("heir")
    finish(mine, deadly(mine, engine, 1))
    mine.settle()
    assert trial(engine) == Trial(epoch=trial(engine).epoch)
    assert rows(engine, "SELECT count(*) FROM penstock_lane") == [(0,)]


def test_deaths_of_other_causes_blame_nobody(make: Make, engine: StoreEngine) -> None:
    """D1: kills from outside, in any number: what was in work with others is a suspect and no more."""
    publish(engine, ("a", 1), ("b", 2), ("c", 3))
    for number in range(20):
        victim = make(f"victim-{number}", gone=[f"victim-{number - 1}"])
        taken(victim, engine, "nobody")  # a slow handler is in work: the process is never quiet
        victim.suspects.trials.grant(quiet=False)
        victim.start(1000)
    assert set(trial(engine).alone.values()) <= {0}
    assert rows(engine, "SELECT count(*) FROM penstock_lane") == [(0,)]


def test_a_lease_that_ran_out_is_no_death(make: Make, engine: StoreEngine) -> None:
    publish(engine, ("a", 1))
    for number in range(20):
        taken(make(f"paused-{number}"), engine, "nobody")
    assert trial(engine).is_empty
    (task,) = taken(make("heir"), engine, "nobody")
    assert task.record.redelivered


def test_a_suspect_waits_for_what_runs_but_not_for_ever(make: Make, engine: StoreEngine) -> None:
    """One that never has the process to itself is never blamed, and delivered all the same."""
    publish(engine, ("a", 1), ("b", 2))
    for number in range(3):
        victim = make(f"victim-{number}", gone=[f"victim-{number - 1}"])
        taken(victim, engine, "nobody")
    mine = make("heir", gone=["victim-2"])
    assert taken(mine, engine, "nobody") == []
    trials = mine.suspects.trials
    assert trials.is_asked
    assert not trials.grant(quiet=False)
    engine.clock.advance(timedelta(seconds=QUIET_SECONDS))
    assert trials.grant(quiet=False)
    (task,) = mine.start(1000)
    assert trials.alone is None
    assert not trial(engine).is_alone
    mine.finish(task, Passed())
    assert task.place.offset not in mine.partitions.get(0).owned.trial.alone  # type: ignore[union-attr]


def test_a_suspect_that_takes_long_lets_the_others_go_on(make: Make, engine: StoreEngine) -> None:
    publish(engine, ("a", 1), ("b", 2))
    for number in range(3):
        victim = make(f"victim-{number}", gone=[f"victim-{number - 1}"])
        taken(victim, engine, "nobody")
    mine = make("heir", gone=["victim-2"])
    deadly(mine, engine, 1)
    trials = mine.suspects.trials
    assert (trials.alone is not None, trials.is_overdue, trial(engine).is_alone) == (True, False, True)
    engine.clock.advance(timedelta(seconds=ALONE_SECONDS))
    assert trials.is_overdue
    mine.suspects.end_alone()
    assert (trials.alone, trial(engine).is_alone) == (None, False)
    assert trial(engine).at_work == {0}


def test_what_came_to_rest_behind_a_failed_head_keeps_its_mark_over_an_orderly_stop(
    make: Make, engine: StoreEngine
) -> None:
    """P6: one owner runs a whole run and dies; the next parks its head and stops; the third must know."""
    publish(engine, *(("a", value) for value in range(5)))
    lost = make("lost")
    lost.take(lambda tx: [])
    fill(lost, engine)
    assert [task.record.value for task in lost.start(100, 100)[0].run()] == [0, 1, 2, 3, 4]
    second = make("second", gone=["lost"])
    second.take(lambda tx: ["second"])
    fill(second, engine)
    head, *others = second.start(100, 100)[0].run()
    second.finish(head, Parked(engine.clock.now_ms() + 60_000, 1, "no"))
    for task in others:
        second.finish(task, None)
    second.settle()
    second.settle()
    second.let_go()
    second.release_idle()
    third = make("third")
    with engine.connect() as conn:
        conn.execute("UPDATE penstock_cursor SET owner_wanted = 'third'")
        conn.commit()
    third.take_wanted(lambda tx: ["third"])  # its lane is not due yet
    fill(third, engine)
    third.settle()
    engine.clock.advance(timedelta(seconds=61))
    tasks = [task for head in third.start(100, 100) for task in head.run()]
    assert [(task.record.value, task.record.redelivered) for task in tasks] == [(n, True) for n in range(5)]


def sixth_death(store: StoreEngine, make: Make, **options: Any) -> GroupDelivery:
    """Return the heir of a process that died with the first record alone, for the third time."""
    make("victim").take(lambda tx: [])
    trial = Trial(deaths=5, epoch=1, at_work={0}, is_alone=True, alone={0: 2})
    with store.connect() as conn:
        conn.execute(f"UPDATE penstock_cursor SET crashes = 5, trial = '{trial.encode()}'")
        conn.commit()
    mine = make("heir", gone=["victim"], **options)
    mine.take(lambda tx: ["heir"])
    fill(mine, store)
    return mine


def test_nothing_stays_out_when_the_store_goes_away_while_a_killer_is_put_off(
    make: Make, engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(engine, ("x", 0), ("y", 1), ("z", 2))
    mine = sixth_death(engine, make)
    with monkeypatch.context() as patch:
        patch.setattr(mine.reader, "fetch", lambda taken: (_ for _ in ()).throw(StoreUnreachable("db", "away")))
        with pytest.raises(StoreUnreachable):
            mine.start(1000)
    assert sorted(values(next_tasks(mine))) == [1, 2]


def test_a_killer_that_waits_slows_nobody_down(make: Make, engine: StoreEngine) -> None:
    """D2: while it is put off, other keys of its partition go in runs, as ever."""
    publish(engine, ("k", 0), *(("hot", value) for value in range(1, 51)))
    mine = sixth_death(engine, make)
    for _ in range(60):
        finish(mine, next_tasks(mine))
    mine.settle()
    assert (trial(engine).deaths, trial(engine).alone) == (0, {0: 3})
    publish(engine, *(("hot", value) for value in range(50)))
    fill(mine, engine)
    (head,) = mine.start(1000, 100)
    assert len(list(head.run())) == 50


def test_a_suspect_whose_handler_is_gone_holds_up_nobody(
    make: Make, engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(engine, ("k", 0), ("x", 1))
    mine = sixth_death(engine, make)
    work = mine.partitions.get(0)
    assert work is not None
    work.owned.killers.clear()

    def fetch(taken: object) -> set[tuple[int, int]]:
        work.records.pop(0, None)  # as if nobody wanted it
        return set()

    monkeypatch.setattr(mine.reader, "fetch", fetch)
    for _ in range(3):
        finish(mine, next_tasks(mine))
    mine.settle()
    assert mine.suspects.trials.alone is None
    assert 0 not in trial(engine).alone


def test_a_log_that_became_shorter_is_read_anew_and_what_comes_again_is_marked(make: Make, engine: StoreEngine) -> None:
    """P1, P2: a backup was restored under a running worker; it waited until the log had passed its place."""
    before = engine.outbox.log.identity().incarnation
    publish(engine, *((f"k-{value}", value) for value in range(3)))
    mine = make()
    tasks = taken(mine, engine, "me")
    with engine.connect() as conn:  # what the backup says: two records, one of them delivered
        conn.execute('DELETE FROM penstock_log WHERE "offset" = 2')
        conn.execute("UPDATE penstock_head SET next_offset = 2")
        conn.execute('UPDATE penstock_cursor SET "offset" = 1')
        conn.commit()
    finish(mine, tasks)
    fill(mine, engine)
    assert (len(mine.partitions), mine.partitions.needs_check) == (0, True)
    mine.check()
    again = taken(mine, engine, "me")
    assert [(task.record.value, task.record.redelivered) for task in again] == [(1, True)]
    raised = engine.outbox.log.identity().incarnation
    assert raised > before
    fill(mine, engine)
    assert engine.outbox.log.identity().incarnation == raised, "once for each time"


def test_a_settling_before_the_first_look_clears_no_doubt(make: Make, engine: StoreEngine) -> None:
    """P6: what a heir had known of the log was less than its former owner had read and handed out."""
    publish(engine, ("a", 1))
    first, heir = make("first"), make("heir")
    finish(first, taken(first, engine))
    first.settle()
    fill(heir, engine)
    publish(engine, ("b", 2))
    fill(first, engine)
    assert values(first.start(1000)) == [2]  # and it falls silent
    heir.take(lambda tx: ["heir"])
    heir.settle()
    fill(heir, engine)
    assert [(task.record.value, task.record.redelivered) for task in heir.start(1000)] == [(2, True)]


def test_an_owner_that_released_is_no_crash(make: Make, engine: StoreEngine) -> None:
    publish(engine, ("a", 1), ("b", 2))
    first = make("first")
    first.untake(taken(first, engine))
    first.release()
    mine = make("second")
    assert [task.record.redelivered for task in taken(mine, engine, "second")] == [False, False]


def test_what_has_simply_passed_may_wait_to_be_settled(make: Make, engine: StoreEngine) -> None:
    publish(engine, ("a", 1), ("b", 2), ("c", 3), ("d", 4))
    mine = make()
    passed, failed, completed, left = taken(mine, engine)
    assert mine.finish(passed, Passed()) is False
    assert mine.finish(failed, Parked(engine.clock.now_ms(), 1, "no")) is True
    assert mine.finish(completed, Passed(by_fallback=True, failures=1, reason="no")) is True
    [again] = mine.start(1000)
    assert mine.finish(again, Passed()) is True  # a lane that waited goes on
    mine.let_go()
    assert mine.finish(left, Passed()) is True


def test_after_a_crash_nothing_waits_to_be_settled(make: Make, engine: StoreEngine) -> None:
    publish(engine, ("a", 1), ("b", 2))
    taken(make("lost"), engine)
    mine = make("heir", gone=["lost"])
    tasks = taken(mine, engine, "heir")
    assert [mine.finish(task, Passed()) for task in tasks] == [True, True]
    mine.settle()
    publish(engine, ("a", 3))
    [task] = taken(mine, engine, "heir")
    assert mine.finish(task, Passed()) is False


def test_the_result_of_an_epoch_that_is_over_is_not_heard(make: Make, engine: StoreEngine) -> None:
    """A handler that ended late: its partition was lost and taken again meanwhile."""
    publish(engine, ("a", 1), ("a", 2))
    mine = make()
    (task,) = taken(mine, engine)
    mine.release()
    (again,) = taken(mine, engine)
    mine.finish(task, Passed())
    assert mine.start(1000) == []
    assert (again.record.offset, again.record.redelivered) == (0, True)
    mine.finish(again, Passed())
    assert values(mine.start(1000)) == [2]


def test_a_unit_of_an_epoch_that_is_over_is_not_heard(make: Make, engine: StoreEngine, database: Database) -> None:
    publish(engine, ("a", 1), ("a", 2))
    mine = make()
    units = TransactionalDelivery(database, mine._store, mine, engine.clock)
    units._most = None  # as in a database with many writers
    begun = []
    for _ in range(2):
        mine.take(lambda tx: [])
        fill(mine, engine)
        begun += units.start_units(1)
        if len(begun) == 1:
            mine.release()
    units.interrupt(begun[0])
    assert units.start_units(1) == []
    units.interrupt(begun[1])
    assert len(units.start_units(1)) == 1


def test_the_result_of_a_record_of_a_deleted_topic_is_not_heard(make: Make, engine: StoreEngine) -> None:
    """In the topic made anew, a record in its place and epoch is another one."""
    publish(engine, ("a", 1))
    (old,) = taken(make(), engine)
    engine.outbox.log.delete_topic("events")
    in_one_partition(engine)
    publish(engine, ("b", 2), ("b", 3))
    mine = make()
    (new,) = taken(mine, engine)
    assert (old.place, old.record.fence) == (new.place, new.record.fence)
    mine.finish(old, Passed())
    assert mine.start(1000) == []
    mine.finish(new, Passed())
    assert values(mine.start(1000)) == [3]


def test_a_settling_that_failed_is_written_by_the_next_call(
    make: Make, engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P9: the database was away; nothing is lost, and nothing is handed out twice."""
    publish(engine, ("a", 1), ("a", 2), ("b", 3))
    mine = make()
    finish(mine, taken(mine, engine))
    run, refusals = database.run, [StoreUnreachable("db", "away")]

    def away(work: Callable[..., Any]) -> Any:
        if refusals:
            raise refusals.pop()
        return run(work)

    monkeypatch.setattr(database, "run", away)
    with pytest.raises(StoreUnreachable):
        mine.settle()
    finish(mine, mine.start(1000))
    mine.settle()
    assert rows(engine, 'SELECT "offset" FROM penstock_cursor') == [(3,)]


def test_a_settling_in_doubt_is_taken_afresh(
    make: Make, engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: it was written and the answer was lost; the same again is refused, the partition loaded anew."""
    publish(engine, ("a", 1), ("a", 2))
    mine = make()
    finish(mine, taken(mine, engine))
    with monkeypatch.context() as patch:
        points.arm("delivery.after_settle", points.fail(StoreUnreachable("db", "cut")))
        with pytest.raises(StoreUnreachable):
            mine.settle()
        points.disarm()
        patch.undo()
    mine.settle()
    assert len(mine.partitions) == 0
    mine.check()
    assert values(taken(mine, engine, "me")) == [2]


def test_what_was_done_after_a_settling_in_doubt_is_marked_for_another_owner_too(
    make: Make, engine: StoreEngine
) -> None:
    publish(engine, ("a", 1), ("a", 2))
    mine, other = make(), make("other")
    finish(mine, taken(mine, engine))
    points.arm("delivery.after_settle", points.fail(StoreUnreachable("db", "cut")))
    with pytest.raises(StoreUnreachable):
        mine.settle()
    points.disarm()
    finish(mine, mine.start(1000))
    mine.settle()
    mine.check()
    (again,) = taken(other, engine, "me")
    assert (again.record.value, again.record.redelivered) == (2, True)


def test_waiting_lanes_are_bounded_and_the_storm_ends(
    make: Make, engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: every key fails once; above the bound nothing more is read until some have gone on."""
    monkeypatch.setattr(bounds, "LANES_BOUND", 5)
    monkeypatch.setattr(bounds, "AHEAD", 4)
    publish(engine, *((f"k-{number}", number) for number in range(60)))
    mine, failed, done, most = make(), set[int](), list[int](), 0
    mine.take(lambda tx: [])
    for _ in range(400):
        fill(mine, engine)
        for task in mine.start(1000):
            if task.record.value in failed:
                done.append(task.record.value)
                mine.finish(task, Passed())
            else:
                failed.add(task.record.value)
                mine.finish(task, Parked(engine.clock.now_ms() + 1000, 1, "no"))
        mine.settle()
        most = max(most, rows(engine, "SELECT count(*) FROM penstock_lane")[0][0])
        engine.clock.advance(timedelta(milliseconds=500))
        if len(done) == 60:
            break
    assert sorted(done) == list(range(60))
    assert most <= 5 + 4 + 1


@pytest.mark.parametrize("where", ["value", "headers"])
def test_what_is_in_memory_is_bounded_by_bytes(
    make: Make, engine: StoreEngine, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """P8, D14: bytes in headers take as much memory as those in values."""
    value, headers = ("x" * 1000, {}) if where == "value" else (1, {"h": "x" * 1000})
    monkeypatch.setattr(bounds, "HELD_BYTES", 3000)
    monkeypatch.setattr(bounds, "READ_BYTES", 2000)
    with engine.connect() as conn:
        for number in range(20):
            engine.outbox.publish(conn, "t", value, key=f"k-{number}", headers=headers)
        conn.commit()
    engine.outbox.drain()
    mine, total = make(), 0
    mine.take(lambda tx: [])
    while total < 20:
        for _ in range(10):
            fill(mine, engine)
        tasks = mine.start(1000)
        assert len(tasks) <= 6
        total += len(tasks)
        finish(mine, tasks)
    assert total == 20


def test_a_record_whose_headers_cannot_be_read_is_a_dead_letter_with_its_bytes(engine: StoreEngine) -> None:
    seen = Seen()
    subscribe(engine.outbox, "g", seen, on_exhausted="release")
    publish_values(engine, 1, 2, key="k")
    engine.another().drain()
    with engine.connect() as conn:
        conn.execute("UPDATE penstock_log SET headers = X'FFFFFF' WHERE \"offset\" = 0")
        conn.commit()
    counts = engine.outbox.drain()
    assert (counts.delivered, counts.dead, seen.values()) == (1, 1, [2])
    ((reason, headers, value),) = rows(engine, "SELECT reason, headers, value FROM penstock_dead")
    assert "cannot be decoded" in reason
    assert (bytes(headers), bytes(value)) == (b"\xff\xff\xff", b"1")


def test_a_lane_that_is_slow_lets_the_cursor_pass(make: Make, engine: StoreEngine) -> None:
    """D2: one key holds its first record; the others go on, far beyond what is read ahead."""
    publish(engine, ("slow", 0), *((f"k-{number % 7}", number) for number in range(1, 400)))
    mine = make()
    mine.take(lambda tx: [])
    fill(mine, engine)
    (slow, *others) = mine.start(1000)
    done = values(others)
    finish(mine, others)
    for _ in range(200):
        fill(mine, engine)
        tasks = mine.start(1000)
        done += values(tasks)
        finish(mine, tasks)
        mine.settle()
    assert len(done) == 399
    mine.finish(slow, Passed())
    mine.settle()
    assert rows(engine, 'SELECT "offset" FROM penstock_cursor') == [(400,)]


def test_a_dead_letter_of_a_handler_is_kept_and_holds_its_lane(make: Make, engine: StoreEngine) -> None:
    publish(engine, ("a", 1), ("a", 2))
    mine = make()
    finish(mine, taken(mine, engine), Dead(4, "no", hold=True))
    mine.settle()
    assert mine.start(1000) == []
    assert rows(engine, "SELECT reason, holding FROM penstock_dead") == [("no", True)]


@pytest.mark.parametrize(
    ("key", "lane"), [("o-1", "o-1"), ("", ""), ("a\0b", "\\x610062"), ("\\x61", "\\x5c783631"), ("a\udcff", "\\x61ff")]
)
def test_the_name_of_a_lane_can_be_stored_and_is_no_other_key(key: str, lane: str) -> None:
    record = Record(id="r", key=key, data=None, type="t", raw_headers=(), timestamp_ms=0)
    assert lane_of(record) == lane


def rows(engine: StoreEngine, query: str) -> list[tuple[Any, ...]]:
    with engine.connect() as conn:
        return [tuple(row) for row in conn.execute(query).fetchall()]


def trial(engine: StoreEngine) -> Trial:
    return stored_trial(rows(engine, "SELECT trial FROM penstock_cursor")[0][0])


def crashes(engine: StoreEngine) -> int:
    return int(rows(engine, "SELECT crashes FROM penstock_cursor")[0][0])


def big(engine: StoreEngine, count: int) -> None:
    with engine.connect() as conn:
        for number in range(count):
            engine.outbox.publish(conn, "t", f"{number:03}" + "x" * 1000, key=f"k-{number}")
        conn.commit()
    engine.outbox.drain()


def test_waiting_records_that_are_too_much_for_one_look_come_in_turn(
    make: Make, engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1, P8: what a bounded look cuts off is neither lost nor taken for gone."""
    big(engine, 10)
    mine = make()
    finish(mine, taken(mine, engine), Parked(engine.clock.now_ms() + 10, 1, "no"))
    mine.settle()
    engine.clock.advance(timedelta(seconds=1))
    monkeypatch.setattr(bounds, "READ_BYTES", 2500)
    seen: list[str] = []
    for _ in range(10):
        tasks = mine.start(1000)
        assert len(tasks) <= 3
        seen += [task.record.value[:3] for task in tasks]
        finish(mine, tasks)
    assert sorted(seen) == [f"{number:03}" for number in range(10)]


def test_holes_that_are_too_much_for_one_look_are_filled_in_turn(
    make: Make, engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    big(engine, 10)
    first = make("first")
    tasks = taken(first, engine)
    finish(first, tasks[9:])
    first.settle()
    first.untake(tasks[:9])
    first.release()
    monkeypatch.setattr(bounds, "READ_BYTES", 2500)
    mine, seen = make("second"), list[str]()
    mine.take(lambda tx: [])
    for _ in range(10):
        fill(mine, engine)
        tasks = mine.start(1000)
        seen += [task.record.value[:3] for task in tasks]
        finish(mine, tasks)
    assert seen == [f"{number:03}" for number in range(9)]


def test_a_run_is_for_one_handler_only(engine: StoreEngine, database: Database) -> None:
    """Another handler of the same key would be called at the same time; it comes when its turn has come."""
    in_one_partition(engine)
    with engine.connect() as conn:
        for type in ("x", "x", "y", "x"):
            engine.outbox.publish(conn, type, type, key="k")
        conn.commit()
    engine.outbox.drain()
    outbox = engine.another()
    for type in ("x", "y"):
        subscribe(outbox, "g", Seen(), match=type, id=type)
    (subscription,) = outbox._handlers.subscriptions()
    log = SqlLog(database, engine.clock)
    store = GroupStore(store_of(database), engine.clock, group="g", topic=log.topic("events"), owner="me")
    mine = GroupDelivery(log, store, subscription, engine.clock)
    mine.take(lambda tx: [])
    fill(mine, engine)
    runs = []
    while tasks := mine.start(1000, 100):
        (head,) = tasks
        runs.append([task.record.offset for task in head.run()])
        finish(mine, list(head.run()))
    assert runs == [[0, 1], [2], [3]]


def test_what_was_taken_before_the_database_went_away_is_handed_out_later(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: writing down what is tried in one partition fails; the records of the other must not stay out."""
    engine.outbox.log.create_topic("events", partitions=2)
    for partition in (0, 1):
        engine.outbox.log.append("events", some_records(1), partition=partition)
    outbox = engine.another()
    subscribe(outbox, "g", Seen())
    (subscription,) = outbox._handlers.subscriptions()
    log = SqlLog(database, engine.clock)
    store = GroupStore(store_of(database), engine.clock, group="g", topic=log.topic("events"), owner="me")
    with engine.connect() as conn:
        conn.execute("UPDATE penstock_cursor SET trial = '{\"d\": 2}' WHERE partition = 1")
        conn.commit()
    trials = Trials(engine.clock, dedicated=True)
    mine = GroupDelivery(log, store, subscription, engine.clock, trials)
    mine.take(lambda tx: [])
    fill(mine, engine)
    with monkeypatch.context() as patch:
        patch.setattr(store, "hand_out", lambda *_: (_ for _ in ()).throw(StoreUnreachable("db", "away")))
        with pytest.raises(StoreUnreachable):
            mine.start(1000)
    assert sorted(task.place.partition for task in mine.start(1000)) == [0, 1]
