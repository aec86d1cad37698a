"""Logging for a command that runs for long: only where the application has configured none."""

import logging

import click

from penstock.logs import JsonFormatter, LoggingSettings

_TEXT = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


def set_up(level: str | None, format: str | None) -> None:
    """Let log records be seen on standard error, if nothing sees them yet.

    Call it once the application is imported: that is where it configures logging. The handler goes to the
    root logger, so that a configuration that comes later takes its place and no line is written twice; only
    the level of Penstock's own loggers is set. Where the application has configured logging, its handlers,
    formats and levels stand; a level that was asked for by name is set all the same.
    """
    settings, penstock = LoggingSettings.load(level=level, format=format), logging.getLogger("penstock")
    if _is_disabled(penstock):
        click.echo(
            "warning: the application's logging configuration has switched Penstock's loggers off; give "
            "dictConfig disable_existing_loggers=False, or name the logger penstock in it",
            err=True,
        )
    if _has_handlers(penstock):
        if level is not None:
            penstock.setLevel(level.upper())
        if format is not None:
            penstock.warning(
                "--log-format %s changes nothing: the application has configured logging itself; for JSON "
                "use penstock.logs.JsonFormatter there",
                format,
            )
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.format == "json" else logging.Formatter(_TEXT))
    logging.getLogger().addHandler(handler)
    penstock.setLevel(settings.level.upper())


def _has_handlers(logger: logging.Logger) -> bool:
    """Return whether what a logger is given goes anywhere."""
    here: logging.Logger | None = logger
    while here is not None:
        if any(not isinstance(each, logging.NullHandler) for each in here.handlers):
            return True
        here = here.parent if here.propagate else None
    return False


def _is_disabled(penstock: logging.Logger) -> bool:
    beneath = (each for name, each in penstock.manager.loggerDict.items() if name.startswith("penstock."))
    return penstock.disabled or any(isinstance(each, logging.Logger) and each.disabled for each in beneath)
