"""Log records as lines of text or JSON, and the settings of the logs that `penstock worker` writes.

Penstock logs to the logger `penstock` and those beneath it, and configures nothing: handlers, levels and
formats belong to the application. The subject of a line is on its record as fields, given by `extra=`.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from penstock.clock import from_ms
from penstock.settings import Settings, setting
from penstock.tracing import current_ids

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class LoggingSettings(Settings, room="logging"):
    """The log that `penstock worker` writes to standard error if the application configures no logging."""

    format: str = setting("text", "Log lines as text, or as JSON, one object a line.", choices=FORMATS)
    level: str = setting("info", "The lowest level of Penstock's own lines.", choices=LEVELS)


def one_line(text: str) -> str:
    """Return text on one line, with control characters and invisible ones escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


class TextFormatter(logging.Formatter):
    """Writes a log record as one line, with its traceback indented below.

    Messages contain names and reasons from clients: none of them can forge a line or act on a terminal. Line
    feeds in a message's own template stay; those in its arguments are escaped.
    Usable in any logging configuration: `"()": "penstock.logs.TextFormatter"` in `dictConfig`.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line and the lines of the traceback."""
        record.message, record.asctime = self._message(record), self.formatTime(record)
        below = [self.formatException(record.exc_info)] if record.exc_info else [record.exc_text or ""]
        below.append(self.formatStack(record.stack_info) if record.stack_info else "")
        indented = [f"  {one_line(each)}" for part in below if part for each in part.split("\n")]
        first = f"{record.asctime} {record.levelname:<7} {one_line(record.name)} {record.message}"
        return "\n".join([first, *indented])

    @staticmethod
    def _message(record: logging.LogRecord) -> str:
        """Return the message; only its template can break lines."""
        template, args = str(record.msg), record.args
        if not args or "\n" not in template:
            return one_line(record.getMessage())
        if isinstance(args, Mapping):
            return template % {name: _shown(value) for name, value in args.items()}
        return template % tuple(_shown(value) for value in args)


def _shown(value: Any) -> Any:
    """Return an argument of a message as it may stand there; a number stays one, for `%d`."""
    return value if isinstance(value, int | float) else one_line(str(value))


class JsonFormatter(logging.Formatter):
    """Writes a log record as one line of JSON: time, level, logger, message, all fields, the traceback.

    Usable in any logging configuration: `"()": "penstock.logs.JsonFormatter"` in `dictConfig`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. A field without a JSON form is written as text, so no line is lost."""
        line: dict[str, Any] = {
            "time": from_ms(int(record.created * 1000)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in record.__dict__.items():
            if name not in _OWN and value is not None:
                line.setdefault(name, value)
        ids = current_ids()
        if ids is not None:  # a handler's log line belongs to its span, and so to the trace of its record
            line.setdefault("trace_id", ids[0])
            line.setdefault("span_id", ids[1])
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["traceback"] = record.exc_text
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        try:
            return json.dumps(line, default=str, allow_nan=False).replace("\x7f", "\\u007f")
        except Exception:  # a key that is not text, NaN, a cycle, an object whose __str__ fails
            return json.dumps({name: _plain(value) for name, value in line.items()})


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int):
        return value
    try:
        return str(value)
    except Exception:
        return f"({type(value).__name__}, which cannot be shown)"
