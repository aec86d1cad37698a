"""What `penstock worker` logs: each line once, and in the application's own way where it has one."""

from __future__ import annotations

import json
import logging
import logging.config
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Outbox
from penstock.cli.service import set_up
from penstock.logs import JsonFormatter
from tests.crash.waiting import wait_until
from tests.unit.cli.program import penstock

pytestmark = pytest.mark.usefixtures("brisk")
SECRET = "canary-4711"
PROGRAM = """
import logging, pydantic
from penstock import Fixed, Outbox, Record
{configured}
outbox = Outbox("sqlite:///shop.db", retry=Fixed(0.01, max_retries=1))

class Payment(pydantic.BaseModel):
    amount: int

@outbox.handler("paid", group="payments")
def pay(record: Record) -> None:
    logging.getLogger("shop").warning("the shop itself speaks")
    Payment.model_validate(record.value)

@outbox.handler("paid", group="batches", batch=10, concurrency=1)
def gather(records: list[Record]) -> None:
    [Payment.model_validate(each.value) for each in records]

@outbox.handler("fine", group="fine")
def fine(record: Record) -> None:
    pass

@outbox.handler("last", group="last")
def last(record: Record) -> None:
    open("done", "w").close()
"""


def worked(folder: Path, configured: str, *options: str, fine: int = 0) -> str:
    """Return what a worker says that meets good and bad payments, the last of them good."""
    (folder / "shop.py").write_text(PROGRAM.format(configured=configured))
    with closing(Outbox(f"sqlite:///{folder}/shop.db")) as outbox:
        outbox.migrate()
        with outbox.transaction() as conn:
            for _ in range(fine):
                outbox.publish(conn, "fine", 1, key="k")
            for number in range(2):
                outbox.publish(conn, "paid", {"amount": SECRET}, key=f"k-{number}")
            outbox.publish(conn, "last", 1, key="k")

        command = penstock("worker", "shop:outbox", *options)
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: (folder / "done").exists() and dead(outbox) == 4, "all is settled")
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 0
    return said


def dead(outbox: Outbox) -> int:
    with outbox.transaction() as conn:
        ((count,),) = conn.execute("SELECT count(*) FROM penstock_dead").fetchall()
        return int(count)


def test_an_application_s_own_configuration_is_respected_and_no_line_comes_twice(tmp_path: Path) -> None:
    said = worked(tmp_path, "logging.basicConfig(level='INFO', format='OWN %(name)s %(message)s')")
    lines = said.splitlines()
    assert sum("SIGTERM: stopping" in each for each in lines) == 1
    assert "OWN penstock.worker SIGTERM: stopping" in lines
    assert sum("has joined as member" in each for each in lines) == 1
    assert lines.count("OWN shop the shop itself speaks") == 4
    assert SECRET not in said


def test_json_lines_hold_the_fields_the_banner_and_the_traceback(tmp_path: Path) -> None:
    said = worked(tmp_path, "", "--log-format", "json", fine=50)
    lines: list[dict[str, Any]] = [json.loads(each) for each in said.splitlines()]
    banner = [each for each in lines if each.get("event") == "started"]
    assert len(banner) == 1
    assert banner[0]["groups"] == ["payments", "batches", "fine", "last"]
    assert banner[0]["handlers"] == ["shop.pay", "shop.gather", "shop.fine", "shop.last"]
    assert (banner[0]["members"], banner[0]["store"]) == (1, str(tmp_path / "shop.db"))
    assert banner[0]["version"] in banner[0]["message"]
    final = [each for each in lines if each["level"] == "error" and each["group"] == "payments"]
    assert {each["key"] for each in final} == {"k-0", "k-1"}
    for each in final:
        assert each["error"] == "ValidationError: Payment: $.amount (int_parsing)"
        assert (each["topic"], each["type"], each["attempt"], each["attempts"]) == ("events", "paid", 2, 2)
        assert isinstance(each["partition"], int)
        assert isinstance(each["offset"], int)
        assert each["id"] in each["message"]
        assert "in pay\n" in each["traceback"]
    assert any(each["logger"] == "shop" for each in lines)  # what the application says, in the same form
    assert any("on a batch of 2" in each["message"] for each in lines)
    assert len([each for each in lines if each["level"] == "info"]) < 10  # however many are delivered
    assert SECRET not in said


# What is set up, in this process


@contextmanager
def bare_logging() -> Iterator[logging.Logger]:
    """Give the root logger without handlers, as a program begins; put all back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("penstock")
    kept = (root.handlers[:], root.level, ours.handlers[:], ours.level)
    known = [each for each in logging.Logger.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    disabled = [each.disabled for each in known]
    root.handlers[:], ours.handlers[:] = [], []
    try:
        yield root
    finally:
        root.handlers[:], ours.handlers[:] = kept[0], kept[2]
        root.setLevel(kept[1])
        ours.setLevel(kept[3])
        for logger, was in zip(known, disabled, strict=True):
            logger.disabled = was


def test_without_a_configuration_one_handler_is_added_and_one_level_set() -> None:
    with bare_logging() as root:
        level = root.level
        set_up(None, "json")
        (handler,) = root.handlers
        assert isinstance(handler.formatter, JsonFormatter)
        assert logging.getLogger("penstock").handlers == []
        assert (logging.getLogger("penstock").level, root.level) == (logging.INFO, level)


def test_a_logger_that_a_framework_has_given_a_handler_is_left_to_that(capsys: pytest.CaptureFixture[str]) -> None:
    with bare_logging():
        set_up(None, None)
        framework = logging.getLogger("framework")
        framework.addHandler(logging.StreamHandler(sys.stderr))
        framework.warning("once")
        logging.getLogger("shop").warning("the shop itself speaks")
        framework.handlers.clear()
    said = capsys.readouterr().err
    assert (said.count("once"), said.count("the shop itself speaks")) == (1, 1)


def test_the_settings_stand_in_for_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LOGGING_FORMAT", "json")
    monkeypatch.setenv("PENSTOCK_LOGGING_LEVEL", "error")
    with bare_logging() as root:
        set_up(None, None)
        assert isinstance(root.handlers[0].formatter, JsonFormatter)
        assert logging.getLogger("penstock").level == logging.ERROR


def test_a_handler_that_drops_all_is_no_configuration() -> None:
    with bare_logging() as root:
        logging.getLogger("penstock").addHandler(logging.NullHandler())
        set_up(None, None)
        assert len(root.handlers) == 1


def test_beside_a_configuration_a_level_that_is_asked_for_counts_and_a_format_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with bare_logging() as root:
        handler = logging.StreamHandler(sys.stderr)
        root.addHandler(handler)
        set_up("debug", "json")
        assert root.handlers == [handler]
        assert logging.getLogger("penstock").level == logging.DEBUG
    assert "--log-format json has no effect" in capsys.readouterr().err


def test_loggers_that_a_configuration_switched_off_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with bare_logging():
        logging.getLogger("penstock.worker")
        logging.config.dictConfig({"version": 1, "root": {"level": "INFO"}})
        set_up(None, None)
    assert "disable_existing_loggers=False" in capsys.readouterr().err


def test_a_script_that_runs_its_outbox_keeps_its_logging_as_it_was(tmp_path: Path) -> None:
    script = """
import logging, threading
from penstock import Outbox
outbox = Outbox("sqlite:///own.db")
outbox.migrate()
names = lambda: sorted(n for n in logging.Logger.manager.loggerDict if n.startswith("penstock"))
state = lambda: [(n, logging.getLogger(n).level, logging.getLogger(n).handlers) for n in ("", *names())]
over = threading.Event()
over.set()
outbox.run(until=over)
assert all(not handlers for _, _, handlers in state()), state()
assert {level for name, level, _ in state() if name} == {logging.NOTSET}, state()
assert logging.getLogger().level == logging.WARNING
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "has joined" not in done.stderr
