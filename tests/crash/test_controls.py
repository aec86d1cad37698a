"""Controls: planted flaws that the account must find, each beside the real sequencer in the same script.

Every script is a fixed order of steps, so a control that finds nothing is a broken account, never bad luck.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from penstock import points
from penstock.database.database import Database
from penstock.outbox.sequencer import Sequencer
from tests.crash.account import breaches, kinds, versions
from tests.crash.holding import held_at
from tests.crash.planted import CursorOnStagedIds, InsertFedFromThePick, PickBeforeTheLock, RememberedFloor
from tests.crash.store import Store, a_member, a_sequencer
from tests.crash.waiting import wait_until

Kind = type[Sequencer]


@pytest.fixture
def database(postgres_store: Store) -> Iterator[Database]:
    """Give a database for members of the test."""
    with closing(postgres_store.database()) as database:
        yield database


@pytest.mark.parametrize(("kind", "found"), [(Sequencer, set()), (CursorOnStagedIds, {"lost", "waiting"})])
def test_an_event_overtaken_by_a_later_one_is_lost_by_a_cursor_on_staged_ids(
    postgres_store: Store, database: Database, kind: Kind, found: set[str]
) -> None:
    sequencer, fence = a_sequencer(database, kind), a_member(database).fence
    with postgres_store.connection() as first:
        postgres_store.publish_next(first, "wide", "k-1")
        postgres_store.publish_committed("wide", ["k-2"])
        sequencer.sequence(fence)
        first.commit()
    sequencer.sequence(fence)
    assert kinds(breaches(postgres_store)) == found


@pytest.mark.parametrize(("kind", "found"), [(Sequencer, set()), (RememberedFloor, {"inverted"})])
def test_a_late_committer_is_put_behind_its_successor_by_a_remembered_floor(
    postgres_store: Store, database: Database, kind: Kind, found: set[str]
) -> None:
    sequencer, fence = a_sequencer(database, kind), a_member(database).fence
    with postgres_store.connection() as first:
        postgres_store.publish_next(first, "wide", "k-1")
        postgres_store.publish_committed("wide", ["k-2", "k-3", "k-4", "k-5", "k-6"])
        sequencer.sequence(fence)
        first.commit()
    postgres_store.publish_committed("wide", ["k-1"])
    for _ in range(2):
        sequencer.sequence(fence)
    assert kinds(breaches(postgres_store)) == found
    assert versions(postgres_store, "wide", "k-1") == ([1, 2] if not found else [2, 1])


@pytest.mark.parametrize(
    ("kind", "found"), [(Sequencer, set()), (InsertFedFromThePick, {"phantom"}), (PickBeforeTheLock, {"phantom"})]
)
def test_a_row_that_somebody_removed_after_the_pick_appears_when_the_insert_is_fed_from_the_pick(
    postgres_store: Store, database: Database, kind: Kind, found: set[str]
) -> None:
    gone, *_ = postgres_store.publish_committed("three", ["k-1", "k-2", "k-3"])

    def remove() -> None:
        postgres_store.run("DELETE FROM penstock_staged WHERE id = ?", gone)
        postgres_store.run("DELETE FROM promised WHERE id = ?", gone)

    points.arm("sequencer.after_pick", remove)
    a_sequencer(database, kind).sequence(a_member(database).fence)
    assert kinds(breaches(postgres_store)) == found


@pytest.mark.parametrize(("kind", "found"), [(Sequencer, set()), (PickBeforeTheLock, {"twice", "inverted"})])
def test_two_movers_with_one_fence_double_every_event_when_the_insert_is_fed_from_an_old_pick(
    postgres_store: Store, database: Database, kind: Kind, found: set[str]
) -> None:
    fence = a_member(database).fence
    for _ in range(3):
        postgres_store.publish_committed("three", ["k-1", "k-2"])
    with ThreadPoolExecutor(2) as pool, held_at("sequencer.before_commit") as hold:
        first = pool.submit(a_sequencer(database, kind).sequence, fence)
        hold.wait()
        second = pool.submit(a_sequencer(database, kind).sequence, fence)
        wait_until(postgres_store.lock_waiters, "the second mover waits for the first")
        hold.let_go()
        moved = first.result().moved + second.result().moved
    assert moved == (6 if not found else 12)
    assert kinds(breaches(postgres_store)) == found


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ('DELETE FROM penstock_log WHERE "offset" = 1', {"lost", "gap"}),
        ('UPDATE penstock_log SET "offset" = 3 WHERE "offset" = 2', {"gap"}),
        ("UPDATE penstock_log SET key = 'k-2'", {"misplaced"}),
        ("UPDATE penstock_head SET next_offset = next_offset + 1 WHERE next_offset > 0", {"gap"}),
    ],
)
def test_damage_done_by_hand_is_found(postgres_store: Store, database: Database, damage: str, found: set[str]) -> None:
    postgres_store.publish_committed("three", ["k-1"] * 3)
    a_sequencer(database).sequence(a_member(database).fence)
    assert breaches(postgres_store) == []
    postgres_store.run(damage)
    assert kinds(breaches(postgres_store)) == found
