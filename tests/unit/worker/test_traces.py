"""One trace from the publisher to the handler, in processes of their own; put together from exported spans.

A publisher and a worker share nothing but the store: what joins their spans is what the record carries.
"""

import json
from typing import Any

import pytest

from tests.conformance.stores import *  # noqa: F403
from tests.unit.ground.child import finish, start

CANARY = "canary-4f1d"
EXPORTER = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""
TELL = """
print(json.dumps([json.loads(each.to_json()) for each in exporter.get_finished_spans()]))
"""
PUBLISH = """
import os
from penstock import Outbox

outbox = Outbox(os.environ["STORE"])
outbox.migrate()
with trace.get_tracer("shop").start_as_current_span("checkout"), outbox.transaction() as conn:
    for number in (1, 2):
        value = {"order_id": f"o-{number}", "card": os.environ["CANARY"]}
        headers = {"secret": os.environ["CANARY"]}
        outbox.publish(conn, "order.placed", value, key=f"o-{number}", headers=headers)
outbox.close()
"""
WORK = """
import io, logging, os
from penstock import Fixed, Outbox
from penstock.logs import JsonFormatter

written = io.StringIO()
handler = logging.StreamHandler(written)
handler.setFormatter(JsonFormatter())
logging.getLogger().addHandler(handler)
outbox = Outbox(os.environ["STORE"])

@outbox.handler("order.placed", group="mailer", id="mail", retry=Fixed(0.001, max_retries=1))
def mail(record):
    logging.getLogger("shop").warning("mailing")
    if record.attempt == 1 and record.key == "o-1":
        raise RuntimeError("declined: " + record.value["card"])
    with outbox.transaction() as conn:
        outbox.publish(conn, "mail.sent", {}, key=record.key)

@outbox.handler("mail.sent", group="books")
def book(record):
    pass

delivered = 0
while delivered < 4:
    delivered += outbox.drain().delivered
outbox.close()
print(json.dumps([json.loads(line) for line in written.getvalue().splitlines()]))
"""

Span = dict[str, Any]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def store_url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_store")
    return address


def named(spans: list[Span], name: str) -> list[Span]:
    return [each for each in spans if each["name"] == name]


def plain(id: str) -> str:
    """Return an id as headers and logs write it."""
    return id.removeprefix("0x")


def test_a_trace_crosses_the_gap_and_tells_no_secret(store_url: str) -> None:
    given = {"STORE": store_url, "CANARY": CANARY}
    published = json.loads(finish(start(EXPORTER + PUBLISH + TELL, **given)))
    lines, worked = map(json.loads, finish(start(EXPORTER + WORK + TELL, **given)).splitlines())

    (checkout,) = named(published, "checkout")
    trace_id = plain(checkout["context"]["trace_id"])
    publishes = named(published, "penstock.publish")
    assert {each["parent_id"] for each in publishes} == {checkout["context"]["span_id"]}
    by_parent: dict[str, list[str]] = {}
    for each in worked:
        by_parent.setdefault(each["parent_id"], []).append(each["name"])
    first, second = (each["context"]["span_id"] for each in publishes)
    ours = ["penstock.deliver", "penstock.handle", "penstock.sequence"]
    assert sorted(by_parent[first]) == sorted([*ours, "penstock.handle"]), "a retry is an attempt more"
    assert sorted(by_parent[second]) == ours

    # What a handler publishes goes on in the same trace, and its own reader stands there too.
    handles = {each["context"]["span_id"] for each in named(worked, "penstock.handle")}
    further = named(worked, "penstock.publish")
    assert {each["parent_id"] for each in further} <= handles
    assert len(further) == 2
    assert all(sorted(by_parent[each["context"]["span_id"]]) == ours for each in further)
    assert {plain(each["context"]["trace_id"]) for each in worked} == {trace_id}

    (failing,) = (each for each in named(worked, "penstock.handle") if each["status"]["status_code"] == "ERROR")
    assert failing["status"]["description"] == "RuntimeError"
    assert failing["attributes"]["error.type"] == "RuntimeError"
    assert CANARY not in json.dumps(published + worked), "no span holds a value or what an error says"

    said = [each for each in lines if each["logger"] in ("shop", "penstock.handlers")]
    assert len(said) == 4
    assert {each["trace_id"] for each in said} == {trace_id}
    assert {each["span_id"] for each in said if each["logger"] == "shop"} <= set(map(plain, handles))


def test_without_a_tracer_no_header_is_read(sqlite_store: str) -> None:
    """Spans cost nothing while nobody records them: a pass asks for no header."""
    program = """
import os
from penstock import Outbox
from penstock.database.database import Transaction

asked = []
rows = Transaction.rows
Transaction.rows = lambda self, room, name, /, **given: asked.append(name) or rows(self, room, name, **given)
outbox = Outbox(os.environ["STORE"])
outbox.migrate()
with outbox.transaction() as conn:
    outbox.publish(conn, "t", {}, headers={"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"})
print(outbox.drain().sequenced, [each for each in asked if each.startswith("traces")])
outbox.close()
"""
    assert finish(start(program, STORE=sqlite_store)) == "1 []\n"
