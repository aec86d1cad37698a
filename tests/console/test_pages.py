"""Every page shows what the store holds, with a bounded number of statements."""

from __future__ import annotations

from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qs

import pytest

from penstock.console.views import PAGES
from penstock.console.visit import address
from penstock.database.database import Transaction
from tests.console.served import ServedConsole, text_of

# What each page is looked at with, and the most statements that it may take, with two groups on one topic.
LOOKS: dict[str, tuple[dict[str, Any], int]] = {
    "": ({}, 20),
    "partitions": ({"group": "mailer", "topic": "events"}, 26),
    "topics": ({}, 6),
    "groups": ({}, 20),
    "key": ({"key": "dead-1"}, 60),
    "failures": ({"group": "mailer"}, 10),
    "lanes": ({}, 8),
    "scheduled": ({}, 4),
    "periodic": ({}, 4),
    "members": ({}, 20),
    "pipelines": ({}, 20),
    "access": ({}, 2),
    "audit": ({}, 4),
    "topic": ({"name": "events"}, 12),
    "record": ({"topic": "events"}, 8),
    "group": ({"name": "mailer"}, 60),
    "letter": ({"group": "mailer", "topic": "events"}, 8),
}
SAID = {
    "": "Oldest undelivered",
    "partitions": "no owner 256",
    "topics": "events 256",
    "groups": "mailer",
    "key": "became a dead letter",
    "failures": "no such customer: dead-2",
    "lanes": "ValueError: not now",
    "scheduled": "order.remind",
    "periodic": "No schedules",
    "members": "No members",
    "pipelines": "No pipeline reads this store",
    "access": "Any client that can connect may do everything",
    "audit": "No audit entries",
    "topic": '{"of":"dead-1"}',
    "record": "x-who",
    "group": "Waiting keys",
    "letter": "no such customer: dead-1",
}


def query_of(console: ServedConsole, path: str) -> dict[str, Any]:
    """Return what a page is looked at with; where a dead letter stands, the list says."""
    query = LOOKS[path][0]
    if path not in ("record", "letter"):
        return query
    listed = console.get("failures", key="dead-1").text
    place = parse_qs(unescape(listed.split("letter?")[1].partition('"')[0]))
    return {**query, "partition": place["partition"][0], "offset": place["offset"][0]}


def looked(console: ServedConsole, path: str) -> Any:
    return console.get(path, **query_of(console, path))


def test_every_page_is_looked_at() -> None:
    assert set(LOOKS) == set(SAID) == {each.path for each in PAGES}


@pytest.mark.parametrize("path", LOOKS)
def test_a_page_says_what_there_is(path: str, console: ServedConsole) -> None:
    found = looked(console, path)
    assert found.status_code == 200
    assert SAID[path] in text_of(found.text)


@pytest.mark.parametrize("path", LOOKS)
def test_the_statements_of_a_page_are_bounded(
    path: str, console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machine-independent: how often the store is asked, not how long that takes."""
    query = query_of(console, path)
    console.get(path, **query)  # what is asked once only is not counted
    asked: list[str] = []
    execute = Transaction.execute

    def noting(self: Any, room: str, name: str, params: Any, /) -> Any:
        asked.append(f"{room}/{name}")
        return execute(self, room, name, params)

    monkeypatch.setattr(Transaction, "execute", noting)
    monkeypatch.setattr("penstock.console.history.LOOK_SECONDS", 0.0)
    console.get(path, **query)
    assert len(asked) <= LOOKS[path][1], asked


@pytest.mark.parametrize("path", [each.path for each in PAGES if each.letter])
def test_a_page_of_an_empty_store_says_the_next_command(path: str, sqlite_store: str) -> None:
    with ServedConsole(sqlite_store) as served:
        found = served.get(path)
    assert found.status_code == 200
    assert 'class="command"' in found.text


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("group", {"name": "nobody"}, 404),
        ("group", {}, 400),
        ("topic", {"name": "nothing"}, 404),
        ("topic", {"name": "events", "partition": "900"}, 404),
        ("topic", {"name": "events", "partition": "many"}, 400),
        ("topic", {"name": "events", "from": "time", "at": "yesterday"}, 400),
        ("topic", {"name": "events", "after": "AAAA"}, 400),
        ("record", {"topic": "events", "partition": "0", "offset": "77"}, 416),
        ("letter", {"group": "mailer", "topic": "events", "partition": "0", "offset": "9"}, 404),
        ("failures", {"group": "nobody"}, 404),
        ("failures", {"after": "%%%"}, 400),
        ("no-such-page", {}, 404),
    ],
)
def test_what_is_not_there_is_said_on_a_page(
    path: str, query: dict[str, str], status: int, console: ServedConsole
) -> None:
    found = console.get(path, **query)
    assert found.status_code == status
    assert found.headers["content-type"].startswith("text/html")


def test_pages_of_records_hold_each_record_once(console: ServedConsole) -> None:
    seen: list[str] = []
    for begin in ("newest", "oldest"):
        found = console.get("topic", name="events", **{"from": begin}).text
        places = [each.partition('"')[0] for each in found.split('data-id="')[1:]]
        assert len(set(places)) == len(places) == 6
        seen.append(" ".join(places))
    assert seen[0] != seen[1]


@pytest.mark.parametrize(
    ("query", "count"),
    [({"key": "a-1"}, 2), ({"type": "order.none"}, 0), ({"from": "offset", "at": "1"}, 2), ({"key": "x"}, 0)],
)
def test_records_are_narrowed(query: dict[str, str], count: int, console: ServedConsole) -> None:
    assert console.get("topic", name="events", **query).text.count("data-id=") == count


def test_a_value_is_shown_as_json_text_and_hex(console: ServedConsole) -> None:
    found = looked(console, "record")
    query = dict(found.request.url.params)
    assert '"of": "dead-1"' in text_of(found.text)
    assert '{"of":"dead-1"}' in text_of(console.get("record", **query, **{"as": "text"}).text)
    assert "7b 22 6f 66 22" in text_of(console.get("record", **query, **{"as": "hex"}).text)


def test_a_value_is_saved_and_never_shown(console: ServedConsole) -> None:
    query = dict(looked(console, "record").request.url.params)
    found = console.get("value", **query)
    assert found.content == b'{"of":"dead-1"}'
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"].startswith("attachment; ")


def test_curves_begin_with_the_second_look(console: ServedConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.history.LOOK_SECONDS", 0.0)
    assert "polyline" in console.get("").text  # levels
    for _ in range(2):
        found = console.get("").text
    assert found.count("polyline") >= 10  # and rates, of both groups too


def test_many_looks_ask_the_store_once(console: ServedConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.console.history.LOOK_SECONDS", timedelta(hours=1).total_seconds())
    console.get("")
    asked: list[str] = []
    monkeypatch.setattr(Transaction, "execute", lambda *args: asked.append(str(args)))
    assert [console.get(each).status_code for each in ("", "groups", "members")] == [200] * 3
    assert asked == []


def test_an_address_says_0_and_leaves_out_what_is_empty() -> None:
    said = address("record", topic="events", partition=0, offset=0, group=None, key="", held=False)
    assert said == "/console/record?topic=events&partition=0&offset=0"
