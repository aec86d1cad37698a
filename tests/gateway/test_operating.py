"""What an operator does over HTTP: the same functions as the commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from penstock import Cancel, Outbox, Record
from penstock.access.policy import AccessPolicy
from penstock.access.rule import parse_rule
from tests.gateway.served import ServedRest


@pytest.fixture
def rest(sqlite_store: str) -> Iterator[ServedRest]:
    """Give a REST door of an outbox with a dead letter, a parked key and a scheduled event."""
    with ServedRest(sqlite_store) as served, closing(Outbox(sqlite_store)) as outbox:

        @outbox.handler(group="mailer")
        def fail(record: Record) -> Cancel | None:
            if record.key == "dead":
                return Cancel("no such address")
            raise ValueError("not now")

        with outbox.transaction() as conn:
            for key in ("dead", "parked"):
                outbox.publish(conn, "order.placed", {"n": 1}, key=key)
            outbox.publish(conn, "order.remind", {}, key="later", at=timedelta(hours=1))
        outbox.drain()
        yield served


def test_dead_letters_are_listed_shown_and_decided_on(rest: ServedRest) -> None:
    (letter,) = rest.client.get("/dead", params={"group": "mailer"}).json()["items"]
    assert (letter["key"], letter["reason"]) == ("dead", "no such address")
    shown = rest.client.get(f"/groups/mailer/dead/events/{letter['partition']}/{letter['offset']}").json()
    assert shown["record"]["value"] == {"n": 1}
    nothing = rest.client.post("/groups/mailer/dead", json={"decision": "discard"})
    assert (nothing.status_code, nothing.json()["code"]) == (400, "invalid_selection")
    dry = rest.client.post("/groups/mailer/dead", json={"decision": "requeue", "all": True, "dry_run": True})
    assert dry.json()["count"] == 1
    done = rest.client.post("/groups/mailer/dead", json={"decision": "discard", "id": letter["id"]})
    assert done.json()["count"] == 1
    assert rest.client.get("/dead").json()["items"] == []


def test_lanes_and_reasons_are_told(rest: ServedRest) -> None:
    (lane,) = rest.client.get("/lanes").json()["items"]
    assert (lane["key"], lane["failures"]) == ("parked", 1)
    (answer,) = rest.client.get("/why", params={"subject": "parked"}).json()
    assert (answer["code"], answer["group"]) == ("parked", "mailer")
    assert rest.client.get("/why").json()["code"] == "invalid_input"


def test_scheduled_events_are_listed_run_and_taken_back(rest: ServedRest) -> None:
    (event,) = rest.client.get("/scheduled").json()["items"]
    assert rest.client.get(f"/scheduled/{event['id']}").json()["key"] == "later"
    assert rest.client.post(f"/scheduled/{event['id']}/run").json() == {"changed": True}
    assert rest.client.delete(f"/scheduled/{event['id']}").json() == {"changed": True}
    assert rest.client.get(f"/scheduled/{event['id']}").json()["code"] == "unknown_scheduled"


def test_schedules_that_nobody_has_are_unknown(rest: ServedRest) -> None:
    assert rest.client.get("/periodic").json()["items"] == []
    for method, path in (("GET", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/run"), ("DELETE", "")):
        assert rest.client.request(method, f"/periodic/nightly{path}").json()["code"] == "unknown_schedule"


def test_a_group_tells_nothing_of_topics_that_who_asks_may_not_know(rest: ServedRest) -> None:
    """Keys and reasons are of the records."""
    rules = (parse_rule("allow anonymous describe group mailer"), parse_rule("allow anonymous read topic other"))
    rest.api.access.install(AccessPolicy(rules=rules))
    mailer = {"group": "mailer"}
    listings = [rest.client.get(path, params=mailer).json()["items"] for path in ("/dead", "/lanes")]
    listings.append(rest.client.get("/groups/mailer/partitions").json()["items"])
    listings.append(rest.client.get("/groups/mailer").json()["on_topics"])
    assert listings == [[], [], [], []]
    assert rest.client.get("/dead/errors", params=mailer).json()["errors"] == []
    shown = rest.client.get("/groups/mailer").json()
    (listed,) = rest.client.get("/groups").json()["items"]
    for each in (shown["group"], listed):
        assert (each["topics"], each["lag"], each["waiting"], each["dead"]) == ([], 0, 0, 0)
    assert shown["filter"] == []
    for subject in ("mailer", "dead", "parked", "later"):
        answers = rest.client.get("/why", params={"subject": subject, **mailer})
        assert "events" not in answers.text
        assert "no such address" not in answers.text
        assert [each["code"] for each in answers.json()] == ["no_handler" if subject == "mailer" else "unknown"]


def test_who_may_describe_the_cluster_is_told_no_topic_that_they_may_not_know(rest: ServedRest) -> None:
    told = ("/key?key=dead", "/dead/errors", "/overview", "/why?subject=dead")
    assert all('"events' in rest.client.get(path).text for path in told)
    rules = (parse_rule("allow anonymous describe cluster"), parse_rule("allow anonymous describe group *"))
    rest.api.access.install(AccessPolicy(rules=rules))
    for path in told:
        answer = rest.client.get(path)
        assert answer.status_code == 200
        assert "events" not in answer.text


def test_of_another_group_than_the_named_one_nothing_is_told(rest: ServedRest) -> None:
    rest.client.post("/groups", json={"name": "mine", "topic": "events"})
    answers = rest.client.get("/why", params={"subject": "mailer", "group": "mine"}).json()
    assert [each["group"] for each in answers] == [None]


def test_a_slash_in_the_name_of_a_group_is_sent_as_2f(rest: ServedRest) -> None:
    name, at = "team/mailer/pause", "/groups/team%2Fmailer%2fpause"
    assert rest.client.post("/groups", json={"name": name, "topic": "events"}).status_code == 201
    assert rest.client.get(at).json()["group"]["name"] == name
    assert rest.client.get(f"{at}/partitions").json()["items"][0]["topic"] == "events"
    assert rest.client.post(f"{at}/pause").json() == {"changed": True}
    refused = {path: rest.client.get(path).status_code for path in ("/groups%2Fmailer", "/groups/a%2Fb%00")}
    assert refused == {"/groups%2Fmailer": 404, "/groups/a%2Fb%00": 404}
    assert rest.client.put(at).status_code == 405
    assert rest.client.delete(at).status_code == 200
    assert rest.client.get(at).json()["code"] == "unknown_group"
