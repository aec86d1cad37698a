"""`penstock worker --reload`: the worker is ended in order and started again when its code changes."""

from __future__ import annotations

import builtins
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock import Outbox
from penstock.cli import main
from tests.crash.waiting import wait_until
from tests.suites.refusal import refusal
from tests.unit.cli.program import penstock

PROGRAM = """
from penstock import Outbox, Record
outbox = Outbox("sqlite:///shop.db")

@outbox.handler(group="g")
def handle(record: Record) -> None:
    with open("seen", "a") as seen:
        print("{word}", record.value, file=seen)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("brisk")
def test_a_change_restarts_the_worker_and_a_syntax_error_waits_for_the_next(tmp_path: Path) -> None:
    module, said, seen = tmp_path / "shop.py", tmp_path / "said", tmp_path / "seen"
    module.write_text(PROGRAM.format(word="old"))
    with closing(Outbox(f"sqlite:///{tmp_path}/shop.db")) as outbox, said.open("w") as out:
        outbox.migrate()

        def handled(value: int, words: str) -> None:
            with outbox.transaction() as conn:
                outbox.publish(conn, "t", value, key="k")
            wait_until(lambda: seen.exists() and words in seen.read_text(), f"{words} is seen")

        command = penstock("worker", "shop:outbox", "--reload")
        watcher = subprocess.Popen(command, cwd=tmp_path, stderr=out)
        try:
            handled(1, "old 1\n")
            module.write_text("def (")
            wait_until(lambda: "ended with exit code 1" in said.read_text(), "the error is said")
            module.write_text(PROGRAM.format(word="new"))
            handled(2, "new 2\n")
            watcher.send_signal(signal.SIGTERM)
            assert watcher.wait(60) == 0
        finally:
            watcher.kill()
            watcher.wait()
        lines = said.read_text()
        assert "for development only" in lines
        assert "reload: shop.py changed: the worker is restarted" in lines
        assert "SyntaxError: invalid syntax (shop.py, line 1)" in lines
        assert lines.count("SIGTERM: stopping") == 2  # the first for the change, the second for the end
        assert lines.count("has joined as member") == 2
        with outbox.transaction() as conn:
            assert conn.execute("SELECT count(*) FROM penstock_member").fetchone() == (0,)
    assert seen.read_text() == "old 1\nnew 2\n"


def test_without_its_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    importing = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name == "watchfiles":
            raise ModuleNotFoundError(name=name)
        return importing(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "watchfiles", raising=False)
    assert refusal(SystemExit, main, ["worker", "shop:outbox", "--reload"]).code == 1
    assert "pip install 'penstock-outbox[reload]'" in capsys.readouterr().err
