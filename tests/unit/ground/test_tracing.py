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
