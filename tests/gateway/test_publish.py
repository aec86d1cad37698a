"""Publishing and reading over HTTP, on every kind of store."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from penstock.access.access import Access
from penstock.access.policy import AccessPolicy
from penstock.access.rate_limits import RateLimit
from penstock.access.rule import parse_rule
from penstock.errors import InvalidHeaders, NotAllowed
from penstock.log.store import Store
from penstock.model.cloudevents import format_time
from penstock.model.record import TOKEN
from penstock.operate.producer import RecordWanted, forget_tokens, produce
from penstock.testing import FakeClock
from tests.gateway.served import JSON, ServedRest, event

RECORDS = "/topics/orders/records"
BATCH = {"content-type": "application/cloudevents-batch+json"}


def everything(store: Store) -> list[tuple[str | None, str]]:
    """Return key and id of all records of `orders`, by partition and offset."""
    log = store.log
    return [(each.key, each.id) for number in range(4) for each in log.read("orders", number)]


def test_an_event_in_each_form_is_read_as_it_was_sent(rest: ServedRest) -> None:
    binary = {
        "ce-specversion": "1.0",
        "ce-id": "b%20%C3%A9",
        "ce-type": "order.placed",
        "ce-source": "/shop",
        "ce-time": "2026-01-02T03:04:05.678Z",
        "ce-partitionkey": "o-1",
        "ce-region": "eu",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "content-type": "text/plain",
    }
    sent = [
        rest.client.post(RECORDS, content=b"hello", headers=binary),
        rest.client.post(
            RECORDS, json=event("s", "o-1", region="eu"), headers={"content-type": "application/cloudevents+json"}
        ),
        rest.client.post(RECORDS, json=[event("c", "o-1"), event("d", "o-1")], headers=BATCH),
        rest.client.post(RECORDS, params={"key": "o-1", "type": "t"}, content=b"\x00\xff"),
        rest.client.post(RECORDS, params={"key": "o-1", "tombstone": "true"}),
    ]
    assert [each.status_code for each in sent] == [201] * 5
    places = [place for each in sent for place in each.json()["records"]]
    number = places[0]["partition"]
    assert [(each["partition"], each["offset"]) for each in places] == [(number, at) for at in range(6)]
    read = rest.client.get(f"/topics/orders/partitions/{number}/records").json()
    assert (read["next_offset"], read["start"], read["end"]) == (6, 0, 6)
    first, second, *_, plain, tombstone = read["records"]
    assert (first["id"], first["key"], first["type"]) == ("b é", "o-1", "order.placed")
    assert (first["timestamp"], base64.b64decode(first["value_base64"])) == ("2026-01-02T03:04:05.678Z", b"hello")
    headers = {each["name"]: each["value"] for each in first["headers"]}
    assert headers == {"content-type": "text/plain", "ce_region": "eu", "traceparent": binary["traceparent"]}
    assert (second["value"], second["headers"]) == ({"n": "s"}, [{"name": "ce_region", "value": "eu"}])
    assert (plain["type"], base64.b64decode(plain["value_base64"])) == ("t", b"\x00\xff")
    assert not {"value", "value_base64", "content_type"} & tombstone.keys()


def test_a_repetition_with_the_same_key_is_given_the_same_offsets(rest: ServedRest) -> None:
    batch, token = [event("a", "k"), event("b"), event("c", "k")], BATCH | {"idempotency-key": "t-1"}
    first = rest.client.post(RECORDS, json=batch, headers=token)
    again = [rest.client.post(RECORDS, json=batch, headers=token) for _ in range(3)]
    assert {each.text for each in again} == {first.text}
    assert len(everything(rest.store)) == 3
    plain = [rest.client.post(RECORDS, content=b"1", headers=JSON | {"idempotency-key": "t-2"}).text for _ in range(2)]
    assert plain[0] == plain[1]
    assert len(everything(rest.store)) == 4


@pytest.mark.parametrize(
    "other", [[event("a", "k")], [event("a", "k"), event("b", "x")], [event("a", "k"), event("b"), event("c")]]
)
def test_the_key_of_another_request_is_refused(rest: ServedRest, other: Any) -> None:
    token = BATCH | {"idempotency-key": "t-1"}
    assert rest.client.post(RECORDS, json=[event("a", "k"), event("b")], headers=token).status_code == 201
    refused = rest.client.post(RECORDS, json=other, headers=token)
    assert (refused.status_code, refused.json()["code"]) == (422, "token_reused")
    assert len(everything(rest.store)) == 2


def test_many_who_send_one_request_at_once_add_it_once(rest: ServedRest) -> None:
    def send(number: int) -> str:
        headers = JSON | {"idempotency-key": f"t-{number % 4}"}
        return rest.client.post(RECORDS, content=b"{}", headers=headers).text

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, range(32)))
    assert len(set(answers)) == len(everything(rest.store)) == 4


def test_old_keys_are_forgotten_and_young_ones_are_not(store_url: str) -> None:
    clock = FakeClock()
    with ServedRest(store_url, clock=clock) as rest:
        rest.store.log.create_topic("orders", partitions=4)

        def send(token: str) -> str:
            headers = JSON | {"idempotency-key": token}
            return rest.client.post(RECORDS, content=b"1", headers=headers).text

        first = send("old")
        clock.advance(timedelta(days=6))
        young = send("young")
        assert forget_tokens(rest.store, clock=clock) == 0
        clock.advance(timedelta(days=2))
        forget_tokens(rest.store, clock=clock)  # unless the server's own round has been faster
        assert (send("young"), send("old") == first) == (young, False)


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedRest]:
    """Give one door for all requests that are refused."""
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db"
    with ServedRest(url, body_bytes=2_000_000) as rest:
        rest.store.log.create_topic("orders", partitions=4)
        yield rest


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "code"),
    [
        ("/topics/nowhere/records", b"1", {}, 404, "unknown_topic"),
        ("/topics/a%20b/records", b"1", {}, 400, "invalid_topic"),
        (f"/topics/{'x' * 250}/records", b"1", {}, 400, "invalid_input"),
        (RECORDS, b"{", {"content-type": "application/cloudevents+json"}, 400, "invalid_envelope"),
        (RECORDS, b"[1]", BATCH, 400, "invalid_envelope"),
        (
            RECORDS,
            b'[{"specversion":"1.0","id":"1","type":"t","source":"/a","d\xcb":1}]',
            BATCH,
            400,
            "invalid_envelope",
        ),
        (RECORDS, b"[" * 100_000, BATCH, 400, "invalid_envelope"),
        (RECORDS, b"x" * (1 << 20 | 1), {}, 413, "value_too_large"),
        (RECORDS, b"x" * 2_000_001, {}, 413, "body_too_large"),
        (
            RECORDS,
            partial(gzip.compress, b"x" * 50_000_000, 1, mtime=0),
            {"content-encoding": "gzip"},
            413,
            "body_too_large",
        ),
        (RECORDS, b"no gzip", {"content-encoding": "gzip"}, 400, "invalid_input"),
        (RECORDS, gzip.compress(b"1", mtime=0)[:-3], {"content-encoding": "gzip"}, 400, "invalid_input"),
        (RECORDS, b"1", {"content-encoding": "br"}, 415, "unsupported_body"),
        (f"{RECORDS}?partition=9", b"1", {}, 404, "unknown_partition"),
        (f"{RECORDS}?partition=x", b"1", {}, 400, "invalid_input"),
        (f"{RECORDS}?partition=1&key=a", b"1", {}, 400, "invalid_input"),
        (f"{RECORDS}?key=%0d%0aset-cookie:a", b"1", {}, 400, "invalid_key"),
        (f"{RECORDS}?type=penstock.erased", b"1", {}, 400, "invalid_type"),
        (RECORDS, b"1", {"idempotency-key": "x" * 256}, 400, "invalid_input"),
        (RECORDS, b"1", {"ce-specversion": "1.0", "ce-id": "1"}, 400, "invalid_envelope"),
        ("/topics", b'{"name": "../../etc"}', JSON, 400, "invalid_input"),
        ("/topics", b'{"name": "a", "partitions": 0}', JSON, 400, "invalid_input"),
        ("/topics", b'{"name": "orders", "partitions": 5}', JSON, 409, "partitions_differ"),
        ("/topics", b"name=a", {"content-type": "text/plain"}, 415, "unsupported_body"),
        ("/nowhere", b"", {}, 404, "no_such_operation"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    refusing: ServedRest, path: str, body: bytes | Callable[[], bytes], headers: dict[str, str], status: int, code: str
) -> None:
    content = body if isinstance(body, bytes) else body()
    refused = refusing.client.post(path, content=content, headers=headers)
    assert refused.headers["content-type"] == "application/problem+json"
    said = refused.json()
    assert (refused.status_code, said["status"], said["code"]) == (status, status, code)
    assert said["detail"]
    assert everything(refusing.store) == []


def test_each_record_of_many_has_its_own_headers_and_each_is_checked(rest: ServedRest) -> None:
    eu, us, copied = (("region", b"eu"),), (("region", b"us"),), ((TOKEN, b"t"), ("region", b"eu"))
    given = [RecordWanted(b"1", key="k", headers=each) for each in (eu, eu, (), us, copied, copied, eu)]
    (number,) = {each.partition for each in produce(rest.store, "orders", given)}
    kept = [each.raw_headers for each in rest.store.log.read("orders", number)]
    assert kept == [eu, eu, (), us, eu, eu, eu]
    for wrong in ([eu, (("", b""),)], [(), eu, (("id", b"x" * 100_000),)]):
        with pytest.raises(InvalidHeaders):
            produce(rest.store, "orders", [RecordWanted(b"2", headers=each) for each in wrong])
    assert len(everything(rest.store)) == 7


def test_gzip_is_unpacked(rest: ServedRest) -> None:
    packed = gzip.compress(b'{"a": 1}')
    sent = rest.client.post(RECORDS, content=packed, headers=JSON | {"content-encoding": "gzip"}).json()
    place = sent["records"][0]
    read = rest.client.get(f"/topics/orders/partitions/{place['partition']}/records").json()
    assert read["records"][0]["value"] == {"a": 1}


def test_topics_are_made_listed_shown_and_deleted(rest: ServedRest) -> None:
    made = rest.client.post("/topics", json={"name": "more", "partitions": 2})
    assert (made.status_code, made.json()["partitions"]) == (201, 2)
    assert rest.client.post("/topics", json={"name": "more", "partitions": 2}).status_code == 200
    first = rest.client.get("/topics", params={"limit": 1}).json()
    second = rest.client.get("/topics", params={"limit": 1, "after": first["after"]}).json()
    assert [each["items"][0]["name"] for each in (first, second)] == ["more", "orders"]
    assert len(rest.client.get("/topics/more/partitions").json()["items"]) == 2
    rest.client.post("/topics/more/records", content=b"1", headers=JSON)
    assert rest.client.delete("/topics/more").json() == {"records": 1}
    assert rest.client.get("/topics/more").status_code == 404


def test_reading_beyond_the_log_says_what_there_is(rest: ServedRest) -> None:
    refused = rest.client.get("/topics/orders/partitions/0/records", params={"offset": 7})
    assert (refused.status_code, refused.json()["code"]) == (416, "offset_out_of_range")
    assert rest.client.get("/topics/orders/partitions/0/records").json()["records"] == []


def test_who_may_not_is_refused_and_sees_nothing_of_it(sqlite_store: str) -> None:
    access = Access(AccessPolicy(rules=(parse_rule("allow anonymous read,describe topic orders"),)))
    with ServedRest(sqlite_store, access=access) as rest:
        for name in ("orders", "secret"):
            rest.store.log.create_topic(name, partitions=1)
        asked = [
            rest.client.post(RECORDS, content=b"1"),
            rest.client.post("/topics", json={"name": "more"}),
            rest.client.delete("/topics/orders"),
            rest.client.get("/topics/secret"),
            rest.client.get("/topics/secret/partitions/0/records"),
        ]
        assert [(each.status_code, each.json()["code"]) for each in asked] == [(403, NotAllowed.code)] * 5
        assert [each["name"] for each in rest.client.get("/topics").json()["items"]] == ["orders"]
        assert rest.client.get("/topics/orders/partitions/0/records").status_code == 200


def test_beyond_a_limit_is_429_and_says_when_to_come_again(sqlite_store: str) -> None:
    clock = FakeClock()
    limits = (
        RateLimit("anonymous", "orders", requests_per_second=0.5),
        RateLimit("anonymous", "bytes", bytes_per_second=10),
    )
    with ServedRest(sqlite_store, access=Access(AccessPolicy(limits=limits), clock=clock)) as rest:
        for name in ("orders", "bytes", "free"):
            rest.store.log.create_topic(name, partitions=1)
        assert rest.client.post(RECORDS, content=b"1", headers=JSON).status_code == 201
        for refused in (
            rest.client.post(RECORDS, content=b"1", headers=JSON),
            rest.client.get("/topics/orders/partitions/0/records"),
            rest.client.post("/groups/g/topics/orders/leases", json={}),
            rest.client.get("/topics/orders/events"),
        ):
            assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
            assert refused.headers["retry-after"] == "2"
        assert rest.client.post("/topics/free/records", content=b"1", headers=JSON).status_code == 201
        clock.advance(timedelta(seconds=2))
        assert rest.client.get("/topics/orders/partitions/0/records").status_code == 200
        produce(rest.store, "bytes", [RecordWanted(b"x" * 30)])
        places = "/topics/bytes/partitions/0/records"
        assert rest.client.get(places).status_code == 200  # what is read counts, too
        assert rest.client.get(places).headers["retry-after"] == "2"


def test_it_describes_itself(rest: ServedRest) -> None:
    told = rest.client.get("/openapi.json").json()
    assert told["openapi"] == "3.1.0"
    ids = [each["operationId"] for path in told["paths"].values() for each in path.values()]
    assert len(ids) == len(set(ids))


def test_a_repetition_may_be_of_another_span(rest: ServedRest) -> None:
    """A client that is traced sends another `traceparent` with each attempt."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-{}-01"
    token = JSON | {"idempotency-key": "t-1"}
    first, again = (
        rest.client.post(RECORDS, content=b"1", headers=token | {"traceparent": trace.format(each)})
        for each in ("b7ad6b7169203331", "00f067aa0ba902b7")
    )
    assert (first.status_code, again.status_code) == (201, 201), again.text
    assert (again.json(), len(everything(rest.store))) == (first.json(), 1)


def test_an_event_of_the_moment_in_which_it_comes_is_the_same_later(sqlite_store: str) -> None:
    clock = FakeClock()
    sent = event("a", time=format_time(clock.now_ms()))
    token = {"content-type": "application/cloudevents+json", "idempotency-key": "t-1"}
    with ServedRest(sqlite_store, clock=clock) as rest:
        rest.store.log.create_topic("orders", partitions=4)
        first = rest.client.post(RECORDS, json=sent, headers=token)
        clock.advance(timedelta(seconds=1))
        again = rest.client.post(RECORDS, json=sent, headers=token)
        assert (again.status_code, again.text) == (201, first.text)


def test_any_door_forgets_old_keys_once_an_hour(sqlite_store: str) -> None:
    clock = FakeClock()
    with ServedRest(sqlite_store, clock=clock) as rest:
        rest.store.log.create_topic("orders", partitions=1)
        produce(rest.store, "orders", [RecordWanted(b"1")], token="t-1", clock=clock)
        rest.api.forget_old_tokens()  # nothing is old yet
        clock.advance(timedelta(days=8))
        rest.api.forget_old_tokens()
        rest.api.close()
        assert forget_tokens(rest.store, clock=clock) == 0


def test_a_time_to_publish_at_is_refused_and_nothing_is_added(rest: ServedRest) -> None:
    """Passed over in silence it would be published at once."""
    answer = rest.client.post(RECORDS, params={"key": "o-1", "at": "2030-01-02T03:04:05Z"}, content=b"x")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
    assert answer.json()["detail"].startswith("parameter at ")
    assert everything(rest.store) == []
