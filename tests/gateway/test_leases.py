"""Consuming as a group over HTTP, on every kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.access.access import Access
from penstock.access.policy import AccessPolicy
from penstock.access.rule import parse_rule
from penstock.gateway.lease import LeasedGroup
from penstock.operate import dead, groups
from tests.crash.waiting import wait_until
from tests.gateway.served import JSON, ServedRest, event

LEASES = "/groups/mailer/topics/orders/leases"
BATCH = {"content-type": "application/cloudevents-batch+json"}

pytestmark = pytest.mark.usefixtures("brisk")


@pytest.fixture
def rest(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedRest]:
    """Give a REST door, whose retries come soon, with a topic `orders` of four partitions."""
    monkeypatch.setenv("PENSTOCK_RETRY_POLICY", "fixed")
    monkeypatch.setenv("PENSTOCK_RETRY_FIXED_DELAY", "0.05")
    monkeypatch.setenv("PENSTOCK_RETRY_MAX_RETRIES", "1")
    with ServedRest(store_url, threads=4) as served:
        served.store.log.create_topic("orders", partitions=4)
        yield served


def publish(rest: ServedRest, *events: tuple[str, str]) -> None:
    sent = rest.client.post("/topics/orders/records", json=[event(*each) for each in events], headers=BATCH)
    assert sent.status_code == 201, sent.text


def take(rest: ServedRest, **wanted: Any) -> dict[str, Any]:
    """Lease records; waits for the first."""
    answer = rest.client.post(LEASES, json={"wait_seconds": 30, **wanted})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def say(rest: ServedRest, lease: dict[str, Any], word: str, *ids: str, **more: Any) -> dict[str, Any]:
    """Say what became of some records of a lease, or of all."""
    places = [(each["partition"], each["offset"]) for each in lease["records"] if each["id"] in ids]
    ranges = [{"partition": number, "first": at, "last": at} for number, at in places]
    body = {**({"ranges": ranges} if ids else {}), **more}
    answer = rest.client.post(f"{LEASES}/{lease['lease']}/{word}", json=body)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def ids(lease: dict[str, Any]) -> list[str]:
    return [each["id"] for each in lease["records"]]


def lag(rest: ServedRest) -> int:
    return groups.show(rest.store, "mailer").group.lag


def test_what_is_acknowledged_is_settled_when_the_answer_comes(rest: ServedRest) -> None:
    publish(rest, ("a1", "a"), ("b1", "b"), ("a2", "a"))
    seen: list[str] = []
    while len(seen) < 3:
        lease = take(rest)
        seen += ids(lease)
        assert not any(each["redelivered"] for each in lease["records"])
        before = lag(rest)
        assert say(rest, lease, "ack")["open"] == 0
        assert lag(rest) <= before - len(lease["records"])
        assert say(rest, lease, "ack")["settled"] == 0  # said twice, it is done once
    assert lag(rest) == 0
    assert sorted(seen) == ["a1", "a2", "b1"]
    assert seen.index("a1") < seen.index("a2")


def test_a_record_that_is_refused_lets_its_key_wait_and_no_other(rest: ServedRest) -> None:
    publish(rest, ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"))
    done: list[str] = []
    refused = 0
    while "a2" not in done or "b2" not in done:
        lease = take(rest)
        if "a1" in ids(lease) and not refused:
            refused = 1
            say(rest, lease, "nack", "a1", reason="not now")
            lease["records"] = [each for each in lease["records"] if each["id"] != "a1"]
        for each in lease["records"]:
            if each["id"] == "a1":
                assert (each["attempt"], each["redelivered"]) == (2, True)
        done += ids(lease)
        say(rest, lease, "ack")
    assert sorted(done) == ["a1", "a2", "b1", "b2"]
    assert done.index("a1") < done.index("a2")
    assert done.index("b1") < done.index("b2")


def test_a_record_that_is_refused_too_often_or_given_up_is_a_dead_letter(rest: ServedRest) -> None:
    publish(rest, ("a1", "a"), ("b1", "b"))
    said = dict.fromkeys(("a1", "b1"), 0)
    while len(dead.dead_letters(rest.store).items) < 2:
        lease = take(rest)
        for each in ids(lease):
            said[each] += 1
            say(rest, lease, "nack", each, reason=f"no {each}", dead=each == "b1", after_seconds=0.01)
    letters = {each.id: each for each in dead.dead_letters(rest.store, group="mailer").items}
    assert said == {"a1": 2, "b1": 1}
    assert (letters["a1"].holding, letters["b1"].holding, letters["b1"].reason) == (True, False, "no b1")


def test_a_lease_that_lapses_lets_its_records_come_again_marked_and_uncounted(rest: ServedRest) -> None:
    publish(rest, ("a1", "a"))
    first = take(rest, lease_seconds=0.2)
    second = take(rest)
    assert ids(first) == ids(second) == ["a1"]
    assert (second["records"][0]["attempt"], second["records"][0]["redelivered"]) == (1, True)
    late = rest.client.post(f"{LEASES}/{first['lease']}/ack", json={})
    assert (late.status_code, late.json()["code"]) == (404, "unknown_lease")
    assert say(rest, second, "extend", lease_seconds=60)["lease_seconds"] == 60
    say(rest, second, "ack")
    assert lag(rest) == 0


def test_nobody_is_given_more_than_they_have_room_for_nor_what_others_hold(rest: ServedRest) -> None:
    publish(rest, *((f"{key}1", key) for key in "abcdef"))
    held = [take(rest, max_records=2) for _ in range(3)]
    assert sorted(id for each in held for id in ids(each)) == [f"{key}1" for key in "abcdef"]
    assert rest.client.post(LEASES, json={}).json()["lease"] is None
    for each in held:
        assert len(each["records"]) <= 2
        say(rest, each, "ack")


def test_a_group_nobody_asks_for_is_given_back(sqlite_store: str) -> None:
    with ServedRest(sqlite_store, group_idle=0.1) as rest:
        rest.store.log.create_topic("orders", partitions=4)
        publish(rest, ("a1", "a"))
        say(rest, take(rest), "ack")
        wait_until(lambda: not groups.show(rest.store, "mailer").member_ids, "it is given back")
        publish(rest, ("a2", "a"))
        assert ids(take(rest)) == ["a2"]


def test_a_group_is_made_paused_resumed_shown_and_deleted(rest: ServedRest) -> None:
    publish(rest, ("a1", "a"))
    made = rest.client.post("/groups", json={"name": "audit", "topic": "orders", "start": "latest"})
    assert (made.status_code, made.json()["group"]["lag"]) == (201, 0)
    assert rest.client.post("/groups/audit/pause").json() == {"changed": True}
    assert rest.client.get("/groups/audit").json()["group"]["paused_at"]
    assert rest.client.post("/groups/audit/resume").json() == {"changed": True}
    assert [each["name"] for each in rest.client.get("/groups").json()["items"]] == ["audit"]
    assert rest.client.get("/groups/audit/partitions").json()["items"]
    assert rest.client.delete("/groups/audit").status_code == 200
    assert rest.client.get("/groups/audit").json()["code"] == "unknown_group"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/groups/g/topics/nowhere/leases", {}, 404, "unknown_topic"),
        (LEASES, {"max_records": 0}, 400, "invalid_input"),
        (LEASES, {"max_records": 1001}, 400, "invalid_input"),
        (LEASES, {"credits": 1}, 400, "invalid_input"),
        (f"{LEASES}/nothing/ack", {}, 404, "unknown_lease"),
        (f"{LEASES}/nothing/nack", {"after_seconds": -1}, 400, "invalid_input"),
        ("/groups/%20/topics/orders/leases", {}, 400, "invalid_input"),
    ],
)
def test_what_cannot_be_is_refused(sqlite_store: str, path: str, body: dict[str, Any], status: int, code: str) -> None:
    with ServedRest(sqlite_store) as rest:
        rest.store.log.create_topic("orders", partitions=1)
        refused = rest.client.post(path, json=body, headers=JSON)
        assert (refused.status_code, refused.json()["code"]) == (status, code)


def test_a_range_that_the_lease_does_not_have_is_refused(rest: ServedRest) -> None:
    publish(rest, ("a1", "a"))
    lease = take(rest)
    body = {"ranges": [{"partition": 0, "first": 77, "last": 78}]}
    refused = rest.client.post(f"{LEASES}/{lease['lease']}/ack", json=body)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
    assert lag(rest) == 1
    say(rest, lease, "ack")


def test_who_may_read_no_more_is_not_given_what_it_waited_for(sqlite_store: str) -> None:
    access = Access()
    with ServedRest(sqlite_store, access=access) as rest, ThreadPoolExecutor(1) as threads:
        rest.store.log.create_topic("orders", partitions=1)
        waiting = threads.submit(rest.client.post, LEASES, json={"wait_seconds": 30})
        served = rest.api.groups._groups
        wait_until(lambda: any(each.done() and each.result()._waiters for each in served.values()), "it waits")
        rules = ("allow * * *", "deny anonymous read topic orders")
        access.install(AccessPolicy(rules=tuple(parse_rule(each) for each in rules)))
        publish(rest, ("a1", "a"))
        assert waiting.result().json().get("code") == "not_allowed"
        access.install(AccessPolicy())
        assert ids(take(rest)) == ["a1"]


def test_more_ranges_than_a_lease_can_have_are_refused(sqlite_store: str) -> None:
    """Each is looked for in all that the lease holds."""
    with ServedRest(sqlite_store) as rest:
        rest.store.log.create_topic("orders", partitions=1)
        publish(rest, ("a1", "a"))
        lease = take(rest)
        body = {"ranges": [{"partition": 0, "first": 0, "last": 0}] * 1001}
        for word in ("ack", "nack"):
            refused = rest.client.post(f"{LEASES}/{lease['lease']}/{word}", json=body)
            assert (refused.status_code, refused.json().get("code")) == (400, "invalid_input")


def test_an_acknowledgement_that_is_not_written_down_in_time_is_no_success(
    sqlite_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeasedGroup, "_tell_settled", lambda *_: None)  # as if the store did not answer
    with ServedRest(sqlite_store, settle_wait=0.2) as rest:
        rest.store.log.create_topic("orders", partitions=1)
        publish(rest, ("a1", "a"))
        lease = take(rest)
        for _ in range(2):
            answer = rest.client.post(f"{LEASES}/{lease['lease']}/ack", json={})
            assert (answer.status_code, answer.json()["code"]) == (503, "not_settled")
            assert answer.headers["retry-after"]
