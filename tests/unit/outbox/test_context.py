"""Context: what the surroundings of a publish give to its events, and what a handler carries on."""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

import penstock
from penstock import Outbox, Record
from penstock.errors import InvalidHeaders, InvalidInput
from penstock.model.context import context_of, current, headers_of
from penstock.testing import memory_outbox
from tests.unit.ground.child import finish, start

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    """Give an outbox in memory whose one topic has one partition."""
    with closing(memory_outbox()) as made:
        made.log.create_topic("events", partitions=1)
        yield made


def published(outbox: Outbox, **options: Any) -> dict[str, str | None]:
    """Publish one event and return its headers."""
    with outbox.transaction() as conn:
        given = outbox.publish(conn, "t", 1, **options)
    outbox.drain()
    return next(record.headers for record in outbox.log.read("events", 0) if record.id == given)


def test_without_a_context_an_event_has_no_headers(outbox: Outbox) -> None:
    assert published(outbox) == {}


def test_an_event_goes_with_the_context_of_the_blocks_around_it(outbox: Outbox) -> None:
    with penstock.context(tenant="acme", user="ü"):
        assert published(outbox) == {"tenant": "acme", "user": "ü", "penstock-context": "tenant,user"}
        with penstock.context({"x-tenant": "b"}, user="inner"):
            assert published(outbox)["x-tenant"] == "b"
            assert published(outbox)["user"] == "inner"
        assert published(outbox)["user"] == "ü"
    assert published(outbox) == {}


def test_an_events_own_headers_win_over_all(outbox: Outbox) -> None:
    outbox.context(lambda: {"tenant": "provider", "more": "provider"})
    with penstock.context(tenant="block"):
        headers = published(outbox, headers={"tenant": "own", "h": None})
    assert (headers["tenant"], headers["more"], headers["h"]) == ("own", "provider", None)


def test_later_providers_win_and_each_is_asked_once_for_a_call(outbox: Outbox) -> None:
    asked: list[int] = []

    @outbox.context
    def first() -> Mapping[str, str]:
        asked.append(1)
        return {"a": "1", "b": "1"}

    @outbox.context
    def second() -> Mapping[str, str]:
        return {"b": "2"}

    with outbox.transaction() as conn:
        outbox.publish_many(conn, [{"type": "t", "value": 1}] * 3)
    outbox.drain()
    assert asked == [1]
    for record in outbox.log.read("events", 0):
        assert record.headers == {"a": "1", "b": "2", "penstock-context": "a,b"}


@pytest.mark.parametrize("wrong", [None, {"a": 1}, {"ce_id": "x"}, 5, {"": "x"}, {"a,b": "x"}])
def test_a_provider_that_fails_is_logged_and_left_out(
    outbox: Outbox, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def failing() -> Mapping[str, str]:
        if wrong is None:
            raise LookupError("no tenant here")
        return wrong  # type: ignore[no-any-return]

    outbox.context(failing)
    outbox.context(lambda: {"good": "yes"})
    with caplog.at_level(logging.ERROR, "penstock.context"):
        assert published(outbox)["good"] == "yes"
    assert "failing" in caplog.text


def test_what_cannot_be_context_is_refused() -> None:
    for wrong in ({"a": 1}, {"": "x"}, {"ce_id": "x"}, {"a,b": "x"}, {"penstock-context": "a"}):
        with pytest.raises(InvalidHeaders), penstock.context(wrong):  # type: ignore[arg-type]
            pass
    with pytest.raises(InvalidInput, match="must be a function"):
        Outbox("memory://").context({"a": "1"})  # type: ignore[type-var]


def test_headers_too_large_are_refused_with_the_context_counted(outbox: Outbox) -> None:
    with (
        penstock.context(big="x" * 60_000),
        outbox.transaction() as conn,
        pytest.raises(InvalidHeaders, match="headers_bytes"),
    ):
        outbox.publish(conn, "t", 1, headers={"h": "x" * 6_000})


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("tenant", b"by hand"),),
        (("penstock-context", b"gone,,ce_id"), ("ce_id", b"x")),
        (("penstock-context", None),),
        (("traceparent", b"rubbish"), ("tracestate", b"x")),
        (("traceparent", PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32).encode()),),
        (("traceparent", b"\xff\xfe"),),
    ],
)
def test_what_is_no_context_or_malformed_is_not_carried(headers: Any) -> None:
    assert context_of(headers) == {}


def test_a_context_comes_back_from_its_headers() -> None:
    entries = {"tenant": "acme", "traceparent": PARENT, "tracestate": "a=1"}
    assert context_of((*headers_of(entries), ("by-hand", b"x"))) == entries


@pytest.mark.parametrize("kind", ["sync", "async", "hidden"])
def test_a_handler_runs_in_the_context_of_its_record_alone(outbox: Outbox, kind: str) -> None:
    """Events that it publishes carry the context on; that of the program around the drain is another one."""

    def chain(record: Record) -> None:
        seen.append(dict(current()))
        if record.value == 1:
            with outbox.transaction() as conn:
                outbox.publish(conn, "t", 2, headers={"more": "x"})

    async def achain(record: Record) -> None:
        await asyncio.sleep(0)
        chain(record)

    seen: list[dict[str, str]] = []
    handler = {"sync": chain, "async": achain, "hidden": lambda record: achain(record)}[kind]
    outbox.handler(group="g", id="h")(handler)
    with outbox.transaction() as conn, penstock.context(tenant="acme", traceparent=PARENT):
        outbox.publish(conn, "t", 1)
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", 0)
    with penstock.context(other="the drain's"):
        outbox.drain()
    acme = {"tenant": "acme", "traceparent": PARENT}
    assert sorted(seen, key=len) == [{}, acme, acme]
    (last,) = [record for record in outbox.log.read("events", 0) if record.value == 2]
    assert last.headers == {"more": "x", **acme, "penstock-context": "tenant"}


TRACED = """
import asyncio, json
from contextlib import closing
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from penstock.testing import memory_outbox
from penstock.worker.binding import batch_in_context

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
with closing(memory_outbox()) as outbox:
    outbox.log.create_topic("events", partitions=1)

    @outbox.handler("first", group="g")
    def first(record):
        with outbox.transaction() as conn:
            outbox.publish(conn, "second", 1)

    @outbox.handler("second", group="g")
    async def second(record):
        await asyncio.sleep(0)
        with trace.get_tracer("own").start_as_current_span("inside"):
            pass

    with trace.get_tracer("own").start_as_current_span("request"), outbox.transaction() as conn:
        outbox.publish(conn, "first", 1)
        outbox.publish_many(conn, [{"type": "many", "value": 1}] * 2)
    outbox.drain()
    records = outbox.log.read("events", 0)
    many = [record for record in records if record.type == "many"]
    batch_in_context(lambda records, events: None, "batch", is_async=False)(many, [])
    asyncio.run(batch_in_context(lambda *_: asyncio.sleep(0), "batch", is_async=True)(many, []))
    parents = [record.headers.get("traceparent") for record in records]
spans = exporter.get_finished_spans()
names = {each.context.span_id: f"{each.name} {each.attributes.get('type', '')}".strip() for each in spans}
print(json.dumps({
    "traces": len({each.context.trace_id for each in spans}),
    "parents": sorted([names[each.context.span_id], names[each.parent.span_id] if each.parent else None]
                      for each in spans if each.attributes.get("type") != "many"
                      and each.name not in ("penstock.deliver", "penstock.sequence")),
    "links": [[names[link.context.span_id] for link in each.links] for each in spans if each.links],
    "events": sorted(each.attributes["events"] for each in spans if each.name == "penstock.publish"),
    "headers": [each is not None for each in parents],
}))
"""


def test_with_opentelemetry_the_processing_span_is_a_child_of_the_producers() -> None:
    """N-35: across a chain of handlers, sync and async; a batch is linked to each of its producers."""
    result = json.loads(finish(start(TRACED)))
    assert result["parents"] == [
        ["inside", "penstock.handle second"],
        ["penstock.handle first", "penstock.publish"],
        ["penstock.handle second", "penstock.publish"],
        ["penstock.publish", "penstock.handle first"],
        ["penstock.publish", "request"],
        ["penstock.publish", "request"],
        ["request", None],
    ]
    assert result["links"] == [["penstock.publish"] * 2] * 2
    assert result["events"] == [1, 1, 2]
    assert result["headers"] == [True] * 4
