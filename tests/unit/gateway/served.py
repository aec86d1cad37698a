"""A worker that serves HTTP, as a process of its own."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.unit.cli.program import penstock

ANSWER_SECONDS = 20.0  # generous: the machine may be busy; the bound itself is the program's own


class Answer(NamedTuple):
    """What came back: the status and the text."""

    status: int
    text: str

    @property
    def reasons(self) -> list[str]:
        """Why it is not ready, in words."""
        return [each["reason"] for each in json.loads(self.text)["reasons"]]


class ServedWorker:
    """A running `penstock worker --http`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.first_line = process.stdout.readline().rstrip("\n")
        assert self.first_line.startswith("http listening on "), self.first_line
        host, _, port = self.first_line.removeprefix("http listening on ").rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)

    def get(self, path: str, *, seconds: float = ANSWER_SECONDS) -> Answer:
        """Ask; raises TimeoutError when nothing comes."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode())
        finally:
            connection.close()

    def reasons(self) -> list[str]:
        """Return why it is not ready; the status agrees."""
        answer = self.get("/readyz")
        assert answer.status == (503 if answer.reasons else 200)
        return answer.reasons

    def end(self) -> str:
        """Tell it to end, wait for that; return what it logged."""
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, said
        return said


@contextmanager
def served(folder: Path, *options: str, **more: Any) -> Iterator[ServedWorker]:
    """Give a worker of `shop:outbox` that serves on a free port; it is ended, whatever happens."""
    process = subprocess.Popen(
        penstock("worker", "shop:outbox", "--http", "127.0.0.1:0", *options),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )
    try:
        yield ServedWorker(process)
    finally:
        process.kill()
        process.communicate()
