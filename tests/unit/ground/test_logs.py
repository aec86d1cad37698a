"""Log records as JSON lines: every field, the traceback inside, no line lost."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from penstock.errors import SettingOutOfRange
from penstock.logs import JsonFormatter, LoggingSettings


def line(message: str = "it is done", *args: Any, error: BaseException | None = None, **fields: Any) -> Any:
    """Return a record as its line says it."""
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("penstock.x", logging.WARNING, __file__, 1, message, args, exc_info)
    record.created = 1.5
    record.__dict__.update(fields)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    return json.loads(text)


def test_a_line_has_time_level_logger_message_and_all_fields() -> None:
    assert line("group %s waits", "g", group="g", partition=3, key=None, own=[1]) == {
        "time": "1970-01-01T00:00:01.500Z",
        "level": "warning",
        "logger": "penstock.x",
        "message": "group g waits",
        "group": "g",
        "partition": 3,
        "own": [1],
    }


def test_a_field_never_takes_the_place_of_the_line_s_own() -> None:
    assert line(level="mine", time="mine")["level"] == "warning"


def test_a_traceback_is_inside_the_line() -> None:
    try:
        raise ValueError("no\nsuch thing")
    except ValueError as error:
        said = line(error=error)["traceback"]
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.endswith("ValueError: no\nsuch thing")


@pytest.mark.parametrize("odd", [float("nan"), {(1, 2): 3}, "\udcff", {1}, b"\xff"], ids=repr)
def test_a_field_without_a_json_form_loses_no_line(odd: Any) -> None:
    assert "odd" in line(odd=odd, group="g")
    assert line(odd=odd, group="g")["group"] == "g"


def test_a_field_that_holds_itself_loses_no_line() -> None:
    round: list[Any] = []
    round.append(round)
    assert line(odd=round)["odd"] == "[[...]]"


def test_a_field_that_fails_to_say_what_it_is_loses_no_line() -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    assert line(odd=Mute(), group="g") | {"group": "g"} == line(group="g") | {"odd": "(Mute, which cannot be shown)"}


def test_the_settings_are_read_as_all_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LOGGING_FORMAT", "json")
    assert (LoggingSettings.load().format, LoggingSettings.load(format="text").format) == ("json", "text")
    with pytest.raises(SettingOutOfRange, match=r"logging.format='xml' is out of range; it must be one of text"):
        LoggingSettings.load(format="xml")


def test_the_formatter_is_named_in_a_dict_config() -> None:
    import logging.config

    logger = logging.getLogger("tests.logs")
    handlers = {"h": {"class": "logging.StreamHandler", "formatter": "json"}}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"json": {"()": "penstock.logs.JsonFormatter"}},
            "handlers": handlers,
            "loggers": {"tests.logs": {"handlers": ["h"]}},
        }
    )
    assert isinstance(logger.handlers[0].formatter, JsonFormatter)
    logger.handlers.clear()
    assert "penstock.logs" in sys.modules
