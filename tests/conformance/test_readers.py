"""Readers that are no groups, on every engine: listed with their lag, asked about, deleted."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from penstock.cli import main
from penstock.errors import UnknownGroup
from penstock.log.contract import Keep
from penstock.operate import groups
from penstock.operate.groups import Forgotten
from penstock.operate.retention import examine_holders, retain
from penstock.operate.why.answer import Code, QuestionKind
from penstock.operate.why.question import why
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import Seen, publish_values, subscribe

LAKE = "lake-3f2a1c"


@pytest.fixture
def read(engine: StoreEngine) -> dict[int, int]:
    """Give where a lake is that has read four of ten records of one key; a group has read them all."""
    subscribe(engine.outbox, "mailer", Seen())
    publish_values(engine, *range(10))
    engine.outbox.drain()
    log = engine.outbox.log
    topic = log.topic("events")
    (number,) = [each for each, end in log.ends(topic).items() if end]
    places = {each: bounds.end for each, bounds in log.all_bounds(topic).items()} | {number: 4}
    log.hold(LAKE, topic, places)
    return {number: 4}


def ids(engine: StoreEngine, read: dict[int, int]) -> list[str]:
    (number,) = read
    return [record.id for record in engine.outbox.log.read("events", number)]


def test_a_reader_is_listed_among_the_groups_with_its_lag(engine: StoreEngine, read: dict[int, int]) -> None:
    found = groups.groups(engine.outbox)
    assert [(each.name, each.kind, each.lag) for each in found.items] == [
        (LAKE, "pipeline", 6),
        ("mailer", "handler", 0),
    ]
    assert found.items[0].oldest_unread_at is not None
    first = groups.groups(engine.outbox, limit=1)
    assert [each.name for each in first.items] == [LAKE]
    assert [each.name for each in groups.groups(engine.outbox, after=first.after).items] == ["mailer"]
    shown = groups.show(engine.outbox, LAKE)
    assert [(each.topic, each.lag) for each in shown.on_topics] == [("events", 6)]


def test_retention_waits_for_a_reader_and_the_doctor_names_it(engine: StoreEngine, read: dict[int, int]) -> None:
    log = engine.outbox.log
    log.retain(log.topic("events"), Keep(age_ms=1000))
    engine.clock.advance(timedelta(days=2))
    assert retain(engine.outbox, clock=engine.clock).deleted == {"events": 4}
    (finding,) = [each for each in examine_holders(engine.outbox, engine.clock) if LAKE in each.found]
    assert f"penstock groups delete {LAKE}, which deletes its offsets" in finding.remedy
    assert groups.delete(engine.outbox, LAKE, dry_run=True).cursors == len(log.all_bounds(log.topic("events")))
    assert log.holds(log.topic("events"))
    groups.delete(engine.outbox, LAKE)
    assert retain(engine.outbox, clock=engine.clock).deleted == {"events": 6}
    with pytest.raises(UnknownGroup):
        groups.delete(engine.outbox, LAKE)
    with pytest.raises(UnknownGroup):
        groups.show(engine.outbox, LAKE)


def test_a_group_of_the_same_name_is_the_one_that_is_deleted(engine: StoreEngine, read: dict[int, int]) -> None:
    log = engine.outbox.log
    log.hold("mailer", log.topic("events"), {0: 0})
    assert isinstance(groups.delete(engine.outbox, "mailer"), Forgotten)
    assert "mailer" in log.holds(log.topic("events"))


def test_why_tells_whether_a_record_is_in_the_tables(engine: StoreEngine, read: dict[int, int]) -> None:
    named = ids(engine, read)
    told = {each.group: each for each in why(engine.outbox, named[3])}
    assert told["mailer"].code is told[LAKE].code is Code.DELIVERED
    assert f"is in the tables of pipeline {LAKE}" in told[LAKE].sentence
    told = {each.group: each for each in why(engine.outbox, named[6])}
    assert told[LAKE].code is Code.IN_WORK
    assert "it has not read it yet, 2 records before it" in told[LAKE].sentence
    assert LAKE not in {each.group for each in why(engine.outbox, named[6], group="mailer")}


def test_why_tells_how_far_a_reader_is(engine: StoreEngine, read: dict[int, int]) -> None:
    for kind in (None, QuestionKind.GROUP):
        (answer,) = why(engine.outbox, LAKE, kind=kind)
        assert (answer.code, answer.place) == (Code.IN_WORK, "events")
        assert "has 6 records of topic events to read" in answer.sentence
    log = engine.outbox.log
    log.hold(LAKE, log.topic("events"), dict.fromkeys(read, 10))
    (answer,) = why(engine.outbox, LAKE)
    assert answer.code is Code.DELIVERED


def test_the_command_shows_it_as_a_pipeline(sqlite_engine: StoreEngine, capsys: pytest.CaptureFixture[str]) -> None:
    log = sqlite_engine.outbox.log
    publish_values(sqlite_engine, 1)
    sqlite_engine.outbox.drain()
    log.hold(LAKE, log.topic("events"), {0: 0})
    for words in (["list"], ["show", LAKE]):
        with pytest.raises(SystemExit):
            main(["groups", *words, "--url", sqlite_engine.url, "--json"])
        told = json.loads(capsys.readouterr().out)
        (one,) = told["groups"] if words == ["list"] else [told]
        assert (one["name"], one["kind"]) == (LAKE, "pipeline")
