"""DNS rebinding: a page of another site has its own host name resolve to this machine.

To the browser its requests are of the same site, so only the name in `Host` gives them away.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from penstock import Outbox, gateway
from penstock.gateway.listener import HttpListener
from penstock.gateway.rest.api import OPERATIONS
from penstock.gateway.rest.operations import Operation
from tests.gateway.served import JSON, ServedGateway, ServedRest

EVIL = "evil.example:8420"
REBOUND = {"host": EVIL, "origin": f"http://{EVIL}", "sec-fetch-site": "same-origin"}
PAGES = ["/", "/console", "/console/", "/metrics", "/healthz", "/readyz", "/v1/openapi.json", "/v1/no-such"]


@pytest.mark.slow  # a process of its own
def test_a_rebound_page_reaches_no_route_of_a_served_store(tmp_path: Path) -> None:
    with ServedGateway(f"file://{tmp_path}/log", "--console") as served:
        publish, read = "/topics/orders/records", "/topics/orders/partitions/0/records"
        assert served.client.post("/topics", json={"name": "orders", "partitions": 1}).status_code == 201
        assert served.client.post(publish, content=b"1", headers=JSON | REBOUND).status_code == 421
        assert served.client.get(read, headers=REBOUND).status_code == 421
        assert served.client.delete("/topics/orders", headers=REBOUND).status_code == 421
        for path in PAGES:
            answer = served.client.get(f"http://{served.address}{path}", headers=REBOUND)
            assert (path, answer.status_code) == (path, 421)
        assert served.client.get(read).json()["records"] == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.id)
def test_every_operation_refuses_a_host_name_that_is_not_known(rest_once: ServedRest, operation: Operation) -> None:
    path = operation.path.removeprefix("/v1")
    answer = rest_once.client.request(operation.method, path, headers=REBOUND)
    assert (answer.status_code, answer.json()["code"]) == (421, "unknown_host")


def test_a_worker_shows_its_series_to_known_host_names_only(tmp_path: Path) -> None:
    with closing(Outbox(f"sqlite:///{tmp_path}/shop.db")) as outbox:
        listener = HttpListener(gateway.app(outbox), "127.0.0.1", 0)
        listener.start()
        try:
            url = f"http://{listener.address}/metrics"
            found = [httpx2.get(url, headers=each).status_code for each in ({}, {"host": EVIL})]
        finally:
            listener.stop()
    assert found == [200, 421]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example@127.0.0.1", 200),  # its host is the address
        ("127.0.0.1@evil.example", 421),
        ("0x7f.1", 421),
        ("", 421),
        ("LOCALHOST:1", 200),
        ("10.1.2.3:8420", 200),  # an address cannot be rebound: a probe of a pod asks by it
        ("[::1]:8420", 200),
        ("penstock.internal:8420", 200),
    ],
)
def test_addresses_and_named_hosts_are_known(rest_once: ServedRest, host: str, status: int) -> None:
    assert rest_once.client.get("/topics", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("/v1/topics/", "/v1/topics"),
        ("/v1/topics/?limit=1", "/v1/topics?limit=1"),
        ("/v1/groups/a%2Fb/", "/v1/groups/a%2Fb"),
        ("//evil.example/", None),
        ("//evil.example/v1/topics/", None),
        ("/\\evil.example/", None),
    ],
)
def test_a_slash_too_many_is_redirected_to_a_relative_address(rest_once: ServedRest, path: str, to: str | None) -> None:
    answer = rest_once.client.get(f"http://127.0.0.1:{rest_once.port}{path}")
    assert answer.headers.get("location") == to
    assert answer.status_code == (404 if to is None else 307)
