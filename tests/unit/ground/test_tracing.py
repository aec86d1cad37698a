"""Spans with OpenTelemetry and without it, each in a process of its own: its provider is set only once."""

import json

from tests.unit.ground.child import finish, start

WITH_SDK = """
import json, sys
from penstock.tracing import context_headers, span
print("opentelemetry" in sys.modules)

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

with span("too.early"):
    early = context_headers()
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

with span("publish", topic="events", count=3) as current:
    headers = context_headers()
    expected = current.get_span_context()
try:
    with span("failing"):
        raise ValueError("canary-4711")
except ValueError:
    pass
print(json.dumps({
    "told": [each.to_json() for each in exporter.get_finished_spans()],
    "early": early,
    "outside": context_headers(),
    "headers": headers,
    "expected": f"00-{expected.trace_id:032x}-{expected.span_id:016x}-{expected.trace_flags:02x}",
    "spans": [[each.name, dict(each.attributes), each.status.status_code.name]
              for each in exporter.get_finished_spans()],
    "tracer": exporter.get_finished_spans()[0].instrumentation_scope.name,
}))
"""

BATCHES = """
import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from penstock.tracing import MOST_LINKS, tell_batch

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

def told(*numbers):
    exporter.clear()
    asked = []
    def parents():
        for each in numbers:
            asked.append(each)
            yield {"traceparent": f"00-{each:032x}-{each:016x}-01"} if each else {}
    with trace.get_tracer("reader").start_as_current_span("poll"):
        tell_batch("penstock.fetch", parents(), since_ms=1000, topic="orders")
    found = [each for each in exporter.get_finished_spans() if each.name == "penstock.fetch"]
    return len(asked), [
        [each.context.trace_id, each.parent and each.parent.span_id,
         [to.context.trace_id for to in each.links]]
        for each in found
    ], [[each.kind.name, each.start_time, dict(each.attributes)] for each in found][-1:]

asked, many, _ = told(*range(1, MOST_LINKS + 51))
print(json.dumps({
    "nothing": told(0, 0)[1], "one": told(0, 7), "same": told(7, 7)[1], "two": told(7, 8)[1],
    "asked": asked, "spans": len(many), "links": len(many[0][2]),
}))
"""

WITHOUT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from penstock.tracing import context_headers, span

with span("outer", count=1) as outer, span("inner") as inner:
    print(outer, inner, context_headers())
try:
    with span("failing"):
        raise ValueError("no")
except ValueError as error:
    print("raised", error)
print(span("one") is span("another"), "opentelemetry" in sys.modules)
"""


def test_with_opentelemetry_a_span_is_recorded_and_its_context_carried() -> None:
    imported, _, said = finish(start(WITH_SDK)).partition("\n")
    result = json.loads(said)

    assert imported == "False", "OpenTelemetry was imported before anybody asked for a span"
    assert result["early"] == {}
    assert result["outside"] == {}
    assert result["headers"] == {"traceparent": result["expected"]}
    assert result["spans"] == [
        ["publish", {"topic": "events", "count": 3}, "UNSET"],
        ["failing", {"error.type": "ValueError"}, "ERROR"],
    ]
    assert "canary" not in "".join(result["told"])  # an error may quote a row or a payload
    assert result["tracer"] == "penstock"


def test_without_opentelemetry_a_span_does_nothing() -> None:
    assert finish(start(WITHOUT)) == "None None {}\nraised no\nTrue False\n"


def test_a_batch_stands_in_the_traces_of_its_events_which_are_bounded() -> None:
    result = json.loads(finish(start(BATCHES)))

    assert result["nothing"] == []
    told = ["CONSUMER", 1_000_000_000, {"topic": "orders"}]
    assert result["one"] == [2, [[7, 7, []]], [told]], "one event: in its trace, and nowhere else"
    assert result["same"] == [[7, 7, []]], "two events of one span are told once"
    whole, first, second = result["two"]
    assert whole[1:] == [None, [7, 8]], "the batch has a trace of its own, whoever asks"
    assert [first, second] == [[7, 7, [whole[0]]], [8, 8, [whole[0]]]]
    assert (result["asked"], result["spans"], result["links"]) == (100, 101, 100)
