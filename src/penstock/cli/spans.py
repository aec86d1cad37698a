"""Where the spans of a command that runs for long go: to a collector, by OTLP, if one is named."""

from penstock import tracing
from penstock.errors import MissingExtra
from penstock.settings import Settings, setting


class TracingSettings(Settings, room="tracing"):
    """The spans of `penstock worker`, `serve` and `pipeline` where no tracer provider is set."""

    endpoint: str = setting(
        "",
        "A collector that takes OTLP over HTTP, such as http://127.0.0.1:4318. Empty: spans are recorded "
        "only if the application has set a tracer provider.",
    )
    service_name: str = setting("penstock", "The name that spans are sent under.")


def send_spans() -> None:
    """Send spans to the collector that the settings name, from now on. Raises MissingExtra.

    Call it once the application is imported: what it has set up stands. What waits to be sent goes out when
    the process ends.
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
