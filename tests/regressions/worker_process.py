"""A worker in a process of its own, so that it can be killed, stopped and starved for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from tests.crash.children import ROOT, SOURCE, Child
from tests.regressions.workers import Handled


class WorkerProcess(Child):
    """The program of `tests.regressions.programs`."""

    def __init__(self, url: str, who: str, **arguments: Any) -> None:
        asked = {"url": url, "who": who, "lease_seconds": 2.0, "beat_seconds": 0.3} | arguments
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.regressions.programs", json.dumps(asked)],
            env=os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.id: str = self.says()["member"]
        assert self.says() == {"ready": True}

    def says_of(self, word: str) -> Any:
        """Return the next thing it says of something, passing over the rest."""
        while word not in (said := self.says()):
            pass
        return said[word]

    def handles(self) -> Handled:
        """Return the next record that it handles."""
        return Handled(*self.says_of("handling"))

    def kill(self) -> None:
        """End it as `kill -9` does, and wait for that."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
