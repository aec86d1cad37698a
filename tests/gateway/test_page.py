"""The snippets of the page "Use REST" run as they are, at another address."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.served import ServedRest

PAGE = Path(__file__).parents[2] / "docs/how-to/rest.md"
_SNIPPET = re.compile(r"<!-- rest: (\w+) -->\n```text\n(.*?)```", re.S)

pytestmark = pytest.mark.usefixtures("brisk")


def shell(text: str) -> str:
    """Run what stands on the page; return what it prints."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not here")
    done = subprocess.run(["sh", "-c", text.replace("curl ", "curl -sS ")], capture_output=True, text=True, timeout=60)
    assert done.stderr == "" or "timed out" in done.stderr, done.stderr
    return done.stdout


def test_the_snippets_run_as_they_are(
    sqlite_store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServedRest(sqlite_store) as rest:
        found = {
            name: text.replace("127.0.0.1:8420", rest.listener.address)
            for name, text in _SNIPPET.findall(PAGE.read_text("utf-8"))
        }
        assert found.keys() == {"curl", "read", "consume", "tail"}
        assert shell(found["curl"]).count('"offset":') == 2
        assert shell(found["read"]).count('"total": 42') == 2
        monkeypatch.setitem(sys.modules, "httpx", httpx2)
        names: dict[str, Any] = {}
        exec(found["consume"], names)
        names["api"].close()
        said = capsys.readouterr().out.splitlines()
        assert said == ["order.placed o-1 {'total': 42}", "order.paid o-1 {'total': 42}"]
        assert shell(found["tail"]).count("event: record") == 2
