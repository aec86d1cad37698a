"""Exports the spans of long-running commands to an OTLP collector, if one is configured."""

from penstock import tracing
from penstock.errors import MissingExtra
from penstock.settings import Settings, setting


class TracingSettings(Settings, room="tracing"):
    """The spans of `penstock worker`, `serve` and `pipeline` if no tracer provider is set."""

    endpoint: str = setting(
        "",
        "A collector that accepts OTLP over HTTP, such as http://127.0.0.1:4318. Empty: spans are recorded "
        "only if the application has set a tracer provider.",
    )
    service_name: str = setting("penstock", "The service name of the spans.")


def send_spans() -> None:
    """Start sending spans to the configured collector. Raises MissingExtra.

    Call it after the application is imported, so that its own setup takes precedence. Pending spans are sent
    when the process ends.
    """
    settings = TracingSettings.load()
    if not settings.endpoint or tracing.is_on():
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as exc:
        raise MissingExtra("tracing.endpoint", "otel") from exc
    provider = TracerProvider(resource=Resource.create({"service.name": settings.service_name}))
    exporter = OTLPSpanExporter(endpoint=f"{settings.endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
