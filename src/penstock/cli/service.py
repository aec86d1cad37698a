"""What long-running commands set up: their logging, their spans, and how a signal stops them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from signal import Signals
from threading import Event
from typing import TextIO

import click

from penstock import tracing
from penstock.errors import MissingExtra
from penstock.logs import FORMATS, LEVELS, JsonFormatter, LoggingSettings, TextFormatter
from penstock.settings import Settings, setting
from penstock.signals import on_signal

from .options import with_options

logger = logging.getLogger("penstock.serve")


def set_up(level: str | None, format: str | None) -> None:
    """Write log records to standard error, unless they have a handler already.

    Call it after the application is imported, since it configures logging then. The handler goes to the root
    logger, so that a later configuration replaces it and no line is written twice; only the level of
    Penstock's own loggers is set. If the application has configured logging, its handlers, formats and levels
    stand, except that a level given by option is set.
    """
    settings, penstock = LoggingSettings.load(level=level, format=format), logging.getLogger("penstock")
    if _is_disabled(penstock):
        click.echo(
            "warning: the application's logging configuration has disabled Penstock's loggers; give "
            "dictConfig disable_existing_loggers=False, or name the logger penstock in it",
            err=True,
        )
    if any(_handlers(penstock)):
        if level is not None:
            penstock.setLevel(level.upper())
        if format is not None:
            penstock.warning(
                "--log-format %s has no effect: the application has configured logging itself; for JSON "
                "use penstock.logs.JsonFormatter there",
                format,
            )
        return
    handler = _OnlyHandler()
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    logging.getLogger().addHandler(handler)
    penstock.setLevel(settings.level.upper())


logging_options = with_options(
    click.option("--log-level", type=click.Choice(LEVELS), help="How much to log; default: logging.level, info."),
    click.option(
        "--log-format", type=click.Choice(FORMATS), help="Log lines as text or JSON; default: logging.format."
    ),
)


class _OnlyHandler(logging.StreamHandler[TextIO]):
    """Writes the records that no other handler gets: frameworks add handlers to their own loggers."""

    def emit(self, record: logging.LogRecord) -> None:
        if all(each is self for each in _handlers(logging.getLogger(record.name))):
            super().emit(record)


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """Yield the handlers that a logger's records reach, without null handlers."""
    here: logging.Logger | None = logger
    while here is not None:
        yield from (each for each in here.handlers if not isinstance(each, logging.NullHandler))
        here = here.parent if here.propagate else None


def _is_disabled(penstock: logging.Logger) -> bool:
    beneath = (each for name, each in penstock.manager.loggerDict.items() if name.startswith("penstock."))
    return penstock.disabled or any(isinstance(each, logging.Logger) and each.disabled for each in beneath)


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


@contextmanager
def stop_signal() -> Iterator[Event]:
    """Yield an event that a signal sets; a second signal has its default effect.

    Enter it before the first listener prints its address: a caller that reads it may send a signal at once.
    """
    stopped = Event()

    def stop(number: Signals) -> None:
        logger.info("%s: completing pending requests, then stopping", number.name)
        stopped.set()

    with on_signal(stop, once=True):
        yield stopped
