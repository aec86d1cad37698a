"""Every act: looked at first, done once, audited; and offered only to who may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from penstock import Outbox
from penstock.access.access import Access
from penstock.access.access_file import AccessFile
from penstock.access.password import hash_token
from penstock.console.acts import ACTS
from penstock.operate.audit import audit
from penstock.operate.dead import dead_letters
from penstock.operate.groups import groups
from penstock.operate.key_course import key_course
from penstock.operate.scheduled import scheduled
from penstock.operate.topics import topics
from tests.console.conftest import fill
from tests.console.served import ServedConsole, mark_of, text_of

TRIED: dict[str, dict[str, Any]] = {
    "publish": {"topic": "events", "value": "1"},
    "pause-group": {"name": "mailer"},
    "resume-group": {"name": "mailer"},
    "move-group": {"name": "mailer", "topic": "events", "to": "earliest"},
    "requeue": {"group": "mailer", "all": "1"},
    "skip": {"group": "mailer", "all": "1"},
    "discard": {"group": "mailer", "all": "1"},
    "cancel-scheduled": {"id": "x"},
    "run-scheduled": {"id": "x"},
    "pause-schedule": {"name": "nightly"},
    "resume-schedule": {"name": "nightly"},
    "run-schedule": {"name": "nightly"},
}


def done(served: ServedConsole) -> list[tuple[str, str]]:
    """Return what the audit holds, the newest first."""
    return [(each.actor, each.action) for each in audit(served.store).items]


def test_every_act_is_tried_here() -> None:
    assert set(TRIED) == set(ACTS)


@pytest.mark.parametrize("word", TRIED)
def test_a_console_that_only_shows_refuses_every_act(word: str, console: ServedConsole) -> None:
    assert console.act(word, **TRIED[word]).status_code == 403
    for path in ("group", "failures", "scheduled"):
        assert "/act/" not in console.get(path, name="mailer", group="mailer").text


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """Give a console that acts can be done on by others than its visitor."""
    url = f"sqlite:///{tmp_path_factory.mktemp('console')}/shop.db"
    fill(url)
    with ServedConsole(url, allow_actions=True) as served:
        yield served


@pytest.mark.parametrize("word", TRIED)
def test_without_the_token_every_act_is_refused(word: str, locked: ServedConsole) -> None:
    assert locked.act(word, **TRIED[word]).status_code == 403
    mark = locked.get("unlock").text.partition('name="mark" value="')[2][:64]
    found = locked.client.post(f"act/{word}", data={**TRIED[word], "mark": mark})
    assert found.status_code == 403
    assert done(locked) == []


def test_a_page_shows_an_act_at_once_also_if_somebody_has_just_looked(acting: ServedConsole) -> None:
    """What was looked at less than a second before offered to pause a group that was paused."""
    for _ in range(3):
        assert "Pause…" in acting.get("group", name="mailer").text
        acting.act("pause-group", name="mailer")
        assert "Resume…" in acting.get("group", name="mailer").text
        acting.act("resume-group", name="mailer")


def test_one_letter_is_one_letter(acting: ServedConsole) -> None:
    picked = {"group": "mailer", "key": "dead-2", "all": "1"}
    asked = text_of(acting.client.get("act/discard", params=picked).text)
    assert "Discard 1 dead letter?" in asked
    assert "1 dead letter of mailer will be discarded for good." in asked
    acting.act("discard", group="mailer", key="dead-2", all="1")
    assert "1 dead letter discarded" in acting.get("failures").text


def test_letters_are_counted_then_requeued_and_the_page_says_so(acting: ServedConsole) -> None:
    asked = acting.client.get("act/requeue", params={"group": "mailer", "all": "1"}).text
    assert "Requeue 3 dead letters?" in text_of(asked)
    assert len(dead_letters(acting.store).items) == 3  # looking has done nothing
    found = acting.act("requeue", group="mailer", all="1")
    assert (found.status_code, found.headers["location"]) == (303, "/console/failures?group=mailer")
    assert "3 dead letters requeued" in acting.get("failures").text
    assert "3 dead letters requeued" not in acting.get("failures").text  # said once
    assert dead_letters(acting.store).items == []
    assert done(acting) == [("console:anonymous", "dead requeue")]


def test_picked_letters_alone_are_discarded(acting: ServedConsole) -> None:
    first, second, third = dead_letters(acting.store).items
    acting.act("discard", pick=[f"mailer/{first.id}", f"mailer/{second.id}"])
    assert [each.id for each in dead_letters(acting.store).items] == [third.id]
    assert done(acting) == [("console:anonymous", "dead discard")] * 2


def test_letters_of_an_error_are_requeued(acting: ServedConsole) -> None:
    for error, left in (("no such customer: dead-2", 2), ("elsewhere", 2), ("no such customer: ", 0)):
        acting.act("requeue", group="mailer", all="1", error=error)
        assert len(dead_letters(acting.store).items) == left


def test_nothing_picked_is_nothing_done(acting: ServedConsole) -> None:
    for fields in ({}, {"group": "mailer"}, {"pick": "no-slash"}, {"all": "1"}, {"pick": ["m/1"] * 201}):
        assert acting.act("discard", **fields).status_code == 400
    assert len(dead_letters(acting.store).items) == 3


def published(served: ServedConsole, **fields: str) -> Any:
    """Publish by the form of a topic: look first, then send what that page holds."""
    shown = served.get("topic", name="events").text
    sent = {"topic": "events", "look": "1", "mark": mark_of(shown), **fields}
    asked = served.client.post("act/publish", data=sent)
    if asked.status_code != 200:
        return asked
    hidden = re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)"', asked.text.partition("<main")[2])
    return [served.client.post("act/publish", data={n: unescape(v) for n, v in hidden}) for _ in range(2)]


def test_a_record_is_published_once_after_a_look(acting: ServedConsole) -> None:
    before = sum(each.records for each in topics(acting.store).items)
    value = '{"note": "<script>alert(1)</script>"}'
    first, again = published(acting, key="by-hand", type="order.fixed", value=value)
    assert (first.status_code, first.headers["location"]) == (303, "/console/topic?name=events")
    assert again.status_code == 303, "sent twice, it is there once"
    assert sum(each.records for each in topics(acting.store).items) == before + 1
    (course,) = key_course(acting.store, "by-hand").records
    (record,) = acting.store.log.read("events", course.partition, course.offset, limit=1)
    assert (record.type, record.data) == ("order.fixed", value.encode())
    assert set(done(acting)) == {("console:anonymous", "publish")}
    assert f"published: events/{course.partition}/{course.offset}" in acting.get("topic", name="events").text


def test_text_is_marked_as_text_and_a_tombstone_has_no_value(acting: ServedConsole) -> None:
    published(acting, key="t", value="é\nnot json")
    published(acting, key="t", tombstone="1")
    found = [
        acting.store.log.read("events", each.partition, each.offset, limit=1)[0]
        for each in key_course(acting.store, "t").records
    ]
    assert sorted(str(each.data and each.data.decode()) for each in found) == ["None", "é\nnot json"]
    assert {each.headers.get("content-type") for each in found} == {None, "text/plain; charset=utf-8"}


def test_what_cannot_be_published_is_refused_at_the_look(acting: ServedConsole) -> None:
    for fields in ({"value": ""}, {"value": "x" * 65_537}, {"key": "k" * 256, "value": "1"}):
        assert published(acting, **fields).status_code == 400, fields
    assert published(acting, topic="nowhere", value="1").status_code == 404
    sent = {"topic": "events", "value": "1", "look": "1", "mark": "0" * 64}
    assert acting.client.post("act/publish", data=sent).status_code == 403, "a form of another site"
    assert done(acting) == []


def test_a_group_is_paused_and_resumed(acting: ServedConsole) -> None:
    for word, is_paused in (("pause-group", True), ("resume-group", False)):
        assert acting.act(word, name="mailer").status_code == 303
        (mailer,) = [each for each in groups(acting.store).items if each.name == "mailer"]
        assert (mailer.paused_at is not None) is is_paused
    assert [action for _, action in done(acting)] == ["group resume", "group pause"]
    assert acting.act("pause-group", name="nobody").status_code == 404


def test_a_group_is_moved_after_a_preview(acting: ServedConsole) -> None:
    fields: dict[str, Any] = {"name": "accounting", "topic": "events", "to": "earliest"}
    asked = text_of(acting.client.get("act/move-group", params=fields).text)
    assert "6 records come again." in asked
    assert done(acting) == []
    assert acting.act("move-group", **fields).status_code == 303
    (accounting,) = [each for each in groups(acting.store).items if each.name == "accounting"]
    assert accounting.lag == 6
    assert acting.act("move-group", **{**fields, "to": "time", "at": "2027-01-01T00:00"}).status_code == 303
    assert acting.act("move-group", **{**fields, "to": "offset", "at": "many"}).status_code == 400
    assert acting.act("move-group", **{**fields, "to": "offset"}).status_code == 400


@pytest.mark.parametrize(("word", "left"), [("cancel-scheduled", 0), ("run-scheduled", 1)])
def test_a_scheduled_event_is_cancelled_or_run(word: str, left: int, acting: ServedConsole) -> None:
    (event,) = scheduled(acting.store).items
    assert acting.act(word, id=event.id).status_code == 303
    assert len(scheduled(acting.store).items) == left
    assert acting.act(word, id="none").status_code == 404


def test_a_schedule_is_paused_resumed_and_run(sqlite_store: str) -> None:
    with closing(Outbox(sqlite_store)) as outbox:
        outbox.migrate()
        outbox.periodic("nightly", timedelta(hours=1), type="report.due")
        outbox.drain()
    with ServedConsole(sqlite_store, allow_actions=True) as served:
        served.unlock()
        words = ["pause", "resume", "run"]
        assert [served.act(f"{each}-schedule", name="nightly").status_code for each in words] == [303] * 3
        assert "nightly" in served.get("periodic").text


RULES = """
anonymous = false
rules = '''
allow ops * *
allow reader describe cluster
allow reader describe,read topic *
allow reader describe group *
allow mine   read topic orders
allow watch  describe cluster
allow watch  describe group *
'''
"""


@pytest.fixture
def ruled(tmp_path: Path, sqlite_store: str) -> Iterator[ServedConsole]:
    """Give a console behind an access file."""
    fill(sqlite_store)
    tokens = "".join(
        f'[tokens.{each}]\nhash = "{hash_token(each * 8)}"\n' for each in ("ops", "reader", "mine", "watch")
    )
    file = tmp_path / "access.toml"
    file.write_text(RULES + tokens)
    file.chmod(0o600)
    with ServedConsole(sqlite_store, access=Access(AccessFile(file).load()), allow_actions=True) as served:
        yield served


def test_who_is_nobody_sees_nothing(ruled: ServedConsole) -> None:
    for path in ("", "topics", "unlock", "static/x/console.css", "act/requeue"):
        assert ruled.get(path).status_code == 401


def test_rules_hold_for_pages_and_acts(ruled: ServedConsole) -> None:
    ops, reader, mine = (ruled.visitor(authorization=f"Bearer {each * 8}") for each in ("ops", "reader", "mine"))
    assert [each.get("").status_code for each in (ops, reader, mine)] == [200, 200, 403]
    assert "events" not in text_of(mine.get("topics").text).replace("moves events", "")
    assert mine.get("topic", params={"name": "events"}).status_code == 403
    assert ruled.act("requeue", reader, group="mailer", all="1").status_code == 403
    assert len(dead_letters(ruled.store).items) == 3
    assert ruled.act("requeue", ops, group="mailer", all="1").status_code == 303
    assert ruled.act("publish", reader, topic="events", value="1").status_code == 403
    assert ruled.act("publish", ops, topic="events", value="1").status_code == 303
    assert done(ruled) == [("console:ops", "publish"), ("console:ops", "dead requeue")]
    shown = text_of(ops.get("access", params={"principal": "mine", "right": "read", "kind": "group"}).text)
    assert "mine may not read group" in shown
    for each in (ops, reader, mine):
        each.close()


def test_what_one_visitor_was_shown_is_not_shown_to_another(ruled: ServedConsole) -> None:
    """The overview is kept for a moment, for all; the right to see it is asked for each time."""
    with (
        ruled.visitor(authorization=f"Bearer {'ops' * 8}") as ops,
        ruled.visitor(authorization=f"Bearer {'mine' * 8}") as mine,
    ):
        for _ in range(3):
            assert (ops.get("groups").status_code, mine.get("groups").status_code) == (200, 403)


def test_pages_of_the_cluster_name_no_topic_that_the_visitor_may_not_know(ruled: ServedConsole) -> None:
    with (
        ruled.visitor(authorization=f"Bearer {'ops' * 8}") as ops,
        ruled.visitor(authorization=f"Bearer {'watch' * 8}") as watch,
    ):
        for path in ("groups", "group?name=mailer", "key?key=dead-1", "failures?group=mailer"):
            shown = [text_of(each.get(path).text).replace("moves events", "") for each in (ops, watch, ops)]
            assert ["events" in each for each in shown] == [True, False, True], path
