"""Logging for long-running commands, unless the application has configured its own."""

import logging
from collections.abc import Iterator
from typing import TextIO

import click

from penstock.logs import JsonFormatter, LoggingSettings, TextFormatter


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
