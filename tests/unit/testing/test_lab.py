"""The crash laboratory: what it finds, that it finds it again, and when it refuses to say anything."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from penstock import Outbox, Record, points
from penstock.errors import LabFailed
from penstock.membership.process import Process
from penstock.model.retry import Fixed
from penstock.testing import CrashLab, World
from penstock.testing.lab.laboratory import FIRST_DRAWN, kills_of
from penstock.testing.lab.worlds import worlds_at
from tests.services.postgres import PostgresServer
from tests.suites.refusal import refusal
from tests.unit.testing import bank

pytestmark = pytest.mark.slow

EACH_RECORD = len(bank.PAID)


def seeds_at(report: Any, point: str) -> list[int]:
    """Return the seeds that kill at a point."""
    return [visit.number for visit in report.visits if visit.point == point]


def test_a_handler_that_adds_twice_is_found_and_its_seed_plays_it_again() -> None:
    lab = bank.lab_of(bank.add)
    report = lab.run()
    assert not report.ok
    assert set(seeds_at(report, "commit.after")) <= {finding.seed for finding in report.findings}
    assert not {finding.seed for finding in report.findings} & set(seeds_at(report, "sequencer.after_pick"))
    first = report.findings[0]
    assert first.handlers == ("add",)
    again = lab.replay(first.seed)
    assert (again.findings, again.rounds) == ((first,), 1)
    assert f"lab.replay({first.seed})" in str(report)
    assert "NOT IDEMPOTENT: add\n" in str(report)
    assert "-{'cents': {'ada': 10, 'grace': 20}, 'notes': []}" in first.diff
    with pytest.raises(AssertionError, match="NOT IDEMPOTENT"):
        report.check()


@pytest.mark.slow
def test_an_effect_lost_between_two_commits_is_found_there_only() -> None:
    report = bank.lab_of(bank.mark_then_add).run()
    kills = {kill.point for finding in report.findings for kill in finding.kills}
    assert kills == {"commit.after", "commit.before"}
    assert len(report.findings) == 2 * EACH_RECORD  # after the first commit, before the second


@pytest.mark.slow
def test_an_idempotent_handler_is_clean_also_under_two_kills() -> None:
    report = bank.lab_of(bank.mark_and_add, rounds=10).run().check()
    assert report.ok
    assert report.rounds == len(report.visits) + 10
    assert report.points["handler.called"] == report.points["commit.before"] == EACH_RECORD
    assert report.points["delivery.before_settle"] == 1
    assert str(report).startswith(f"idempotent: {report.rounds} rounds")


@pytest.mark.slow
def test_what_commits_with_the_cursor_is_clean_although_it_is_not_idempotent() -> None:
    report = bank.lab_of(bank.add_in_tx, transaction=True, rounds=5).run().check()
    assert report.points["unit.before_commit"] == 1
    assert "commit.before" not in report.points


def test_a_mail_sent_twice_is_found_among_handlers_that_are_right() -> None:
    lab = bank.lab_of(bank.mark_and_add, bank.mail)
    scouted = lab.replay(1).check()
    lab.replay(seeds_at(scouted, "commit.after")[-1]).check()
    (found,) = lab.replay(seeds_at(scouted, "effect.after")[0]).findings
    assert found.handlers == ("mail",)
    assert found.got.endswith("'notes': ['mail to ada', 'mail to grace', 'mail to grace']}")


@pytest.mark.slow
def test_a_handler_that_refuses_a_repeat_leaves_a_dead_letter() -> None:
    def insist(record: Record) -> None:
        with closing(bank.connect()) as conn, conn:
            conn.execute("INSERT INTO seen VALUES (?)", (record.id,))

    lab = bank.lab_of(insist)
    (found,) = lab.replay(seeds_at(lab.replay(1), "delivery.before_settle")[0]).findings
    assert "+dead letter of group insist: money.paid of key 'ada'" in found.diff


def test_nothing_runs_after_a_kill_not_even_finally() -> None:
    def tidy(record: Record) -> None:
        with closing(bank.connect()) as conn:
            try:
                conn.execute("INSERT OR REPLACE INTO seen VALUES ('x')")
                conn.commit()
            finally:
                with (bank.here[0].folder / "tidied").open("a") as diary:
                    print(record.key, file=diary)

    lab = bank.lab_of(tidy, state=lambda world: sorted((world.folder / "tidied").read_text().split()))
    scouted = lab.replay(1)
    lab.replay(seeds_at(scouted, "commit.after")[0]).check()
    assert lab.replay(seeds_at(scouted, "handler.returned")[0]).findings  # there it had run, and runs again


@pytest.mark.slow
def test_retries_and_schedules_take_no_time() -> None:
    def stumble(record: Record) -> None:
        if record.attempt == 1:
            raise ConnectionError("not yet")
        bank.mark_and_add(record)

    lab = bank.lab_of(stumble)
    scouted = lab.replay(1).check()
    assert scouted.points["handler.raised"] == EACH_RECORD
    for point in ("handler.raised", "commit.after"):
        lab.replay(seeds_at(scouted, point)[-1]).check()


@pytest.mark.slow
def test_async_handlers_are_seen_to_their_end() -> None:
    async def add_later(record: Record) -> None:
        bank.add(record)

    lab = bank.lab_of(add_later)
    scouted = lab.replay(1).check()
    assert scouted.points["handler.returned"] == scouted.points["commit.after"] == EACH_RECORD
    (found,) = lab.replay(seeds_at(scouted, "commit.after")[0]).findings
    assert found.handlers == ("add_later",)


@pytest.mark.slow
def test_the_commits_of_a_fallback_are_seen() -> None:
    outbox = Outbox("memory://")
    never = Fixed(max_retries=0)
    outbox.handler(group="g", id="gives up", retry=never, fallback=bank.add)(_fails)
    lab = CrashLab(outbox, publish=bank.publish, state=bank.state, make=bank.make, enter=bank.enter)
    scouted = lab.replay(1).check()
    assert scouted.points["commit.after"] == scouted.points["handler.raised"] == EACH_RECORD
    (found,) = lab.replay(seeds_at(scouted, "commit.after")[0]).findings
    assert found.handlers == ("gives up",)


def test_this_process_stays_as_it_was() -> None:
    connect, lab = sqlite3.connect, bank.lab_of(bank.mark_and_add)
    outbox: Outbox = lab._experiment.outbox
    before = dict(vars(outbox))
    lab.replay(1)
    assert sqlite3.connect is connect
    assert vars(outbox) == before
    assert not points._armed
    assert not bank.here


def test_a_seed_means_the_same_kills_everywhere() -> None:
    assert kills_of(7, 30) == (7,)
    assert kills_of(FIRST_DRAWN, 30) == (30, 3)
    assert len({kills_of(seed, 30) for seed in range(FIRST_DRAWN, FIRST_DRAWN + 50)}) > 40


def test_rounds_are_drawn_by_the_seed() -> None:
    lab = bank.lab_of(bank.add)
    assert lab._drawn(1, 4) == lab._drawn(1, 9)[:4]
    assert set(lab._drawn(1, 50)).isdisjoint(lab._drawn(2, 50))
    assert min(lab._drawn(1, 50)) >= FIRST_DRAWN


@pytest.mark.slow
def test_a_laboratory_whose_kills_do_not_happen_is_not_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "kill", lambda: None)
    report = bank.lab_of(bank.mark_and_add).run()
    assert not report.findings
    assert len(report.missed) == report.rounds == len(report.visits) > 0
    assert not report.ok
    with pytest.raises(AssertionError, match="never reached the place of their kill"):
        report.check()


@pytest.mark.slow
def test_worlds_that_are_not_renewed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.testing.lab.worlds.Worlds.renew", lambda self: None)
    assert "two runs without any kill differ" in str(refusal(LabFailed, bank.lab_of(bank.add).run))


def _fails(record: Record) -> None:
    raise ValueError("no such account")


def _waits(record: Record) -> None:
    Event().wait()


def _exits(record: Record) -> None:
    os._exit(3)


def _nothing(world: World) -> None:
    """Publish nothing."""


def _tears_down(world: World) -> None:
    raise RuntimeError("the table is locked")


@pytest.mark.parametrize(
    ("handler", "options", "words"),
    [
        (bank.mark_and_add, {"state": lambda world: os.urandom(8)}, "two runs without any kill differ"),
        (bank.mark_and_add, {"publish": _nothing}, "no handler is called"),
        (bank.mark_and_add, {"make": _tears_down}, "RuntimeError: the table is locked"),
        (_fails, {}, "leaves 2 dead letters, not 0; make the handlers work first"),
        (_exits, {}, "ended with exit code 3"),
        (_waits, {"silence_seconds": 1.0}, "was silent for 1 s"),
    ],
)
def test_a_laboratory_that_can_prove_nothing_says_why(
    handler: Callable[[Record], None], options: dict[str, Any], words: str
) -> None:
    assert words in str(refusal(LabFailed, bank.lab_of(handler, **options).run))


def test_expected_dead_letters_are_no_finding() -> None:
    bank.lab_of(_fails, dead_letters=2).replay(8).check()


def test_a_seed_of_nowhere_is_refused() -> None:
    assert "take one from a finding" in str(refusal(LabFailed, bank.lab_of(bank.add).replay, 0))


@pytest.mark.slow
def test_a_laboratory_on_postgres_finds_what_commits_there(postgres_server: PostgresServer) -> None:
    psycopg = pytest.importorskip("psycopg")
    url: list[str] = []

    def make(world: World) -> None:
        with psycopg.connect(url[0]) as conn:
            conn.execute("CREATE TABLE paid (cents integer NOT NULL)")

    def pay(record: Record) -> None:
        with psycopg.connect(url[0]) as conn:
            conn.execute("INSERT INTO paid VALUES (%s)", (record.value,))

    def state(world: World) -> Any:
        with psycopg.connect(url[0]) as conn:
            return conn.execute("SELECT count(*) FROM paid").fetchall()

    def enter(world: World) -> None:
        url[:] = [world.url]

    outbox = Outbox("memory://")
    outbox.handler(group="g", id="pay")(pay)
    server = postgres_server.create_database()
    lab = CrashLab(outbox, publish=bank.publish, state=state, make=make, enter=enter, server=server)
    scouted = lab.replay(1).check()
    found = lab.replay(seeds_at(scouted, "commit.after")[0])
    assert [finding.handlers for finding in found.findings] == [("pay",)]
    lab.replay(seeds_at(scouted, "commit.before")[0]).check()
    with psycopg.connect(server) as conn:
        left = conn.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'penstock_lab_%%'")
        assert left.fetchone()[0] == 0
    postgres_server.drop_database(server)


def test_a_folder_is_left_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)  # what was read of it before
    bank.lab_of(bank.mark_and_add).replay(3).check()
    with worlds_at(None) as worlds:
        assert worlds.folder.is_relative_to(tmp_path.resolve())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_lease_is_not_waited_for_where_nobody_can_be_judged_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Process, "is_surely_dead", lambda self: False)
    lab = bank.lab_of(bank.mark_and_add)
    lab.replay(seeds_at(lab.replay(1).check(), "commit.after")[0]).check()
