"""Programs in processes of their own, so that they can be killed and stopped for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

import penstock
from tests.crash.waiting import wait_until

# Found at import: a test stands in another folder, where a relative path leads nowhere.
ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(penstock.__file__).resolve().parents[1]


class Child:
    """One program of `tests.crash.programs`. It says what it does in lines of JSON, and ends on a word."""

    def __init__(self, program: str, **arguments: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.programs", program, json.dumps(arguments)],
            env=os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> Any:
        """Return the next thing it says; fail if it ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the program ended with {self._process.wait()}"
        return json.loads(line)

    def tell(self, word: str = "go") -> None:
        """Say a word to it."""
        assert self._process.stdin is not None
        print(word, file=self._process.stdin, flush=True)

    def wait_until_stopped(self) -> None:
        """Return when it has been stopped, by itself or by us."""
        process = psutil.Process(self._process.pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "the program is stopped")

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stop it where it stands."""
        self._process.send_signal(signal.SIGSTOP)

    def is_gone(self) -> bool:
        """Return whether it has ended."""
        return self._process.poll() is not None

    def resume(self) -> None:
        """Let a stopped program go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> list[Any]:
        """Ask it to end; return what it has said since it was last listened to."""
        said, _ = self._process.communicate("stop\n")
        assert self._process.returncode == 0
        return [json.loads(line) for line in said.splitlines()]

    def finish(self) -> list[Any]:
        """Wait until it has ended by itself; return what it has said."""
        said, _ = self._process.communicate()
        assert self._process.returncode == 0
        return [json.loads(line) for line in said.splitlines()]

    def said_until_killed(self) -> list[Any]:
        """Wait until it has been killed; return what it has said since it was last listened to."""
        assert self._process.stdout is not None
        said = self._process.stdout.read()  # not `communicate`, whose first act is a word to it
        assert self._process.wait() == -signal.SIGKILL
        return [json.loads(line) for line in said.splitlines()]

    def is_killed(self) -> bool:
        """Wait until it has ended; return whether that was by SIGKILL."""
        self._process.communicate()
        assert self._process.returncode in (0, -signal.SIGKILL)
        return self._process.returncode != 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
