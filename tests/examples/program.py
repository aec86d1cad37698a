"""A program of an example, in a process of its own, and what it says."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

from tests.docs.pages import PROJECT

SECONDS = 60.0  # generous: only a broken program takes so long
_BIN = Path(sys.executable).parent


def words_of(line: str) -> list[str]:
    """Return a command of a page with the programs of this environment in place of those on PATH."""
    program, *rest = line.split()
    return [str(_BIN / program), *rest]


class Program:
    """One command, started; its lines are read as they come. Call `stop` in any case."""

    def __init__(self, line: str, folder: Path, environment: dict[str, str]) -> None:
        self.line, self.said = line, list[str]()
        self._process = subprocess.Popen(
            words_of(line),
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._awaited, self._found = re.compile(r"(?!)"), Event()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the first thing it says that matches, also if it said so before. Fails with all it said."""
        self._awaited = re.compile(pattern)
        if not any(self._awaited.search(line) for line in list(self.said)):
            self._found.wait(SECONDS)
        for line in self.said:
            if match := self._awaited.search(line):
                return match
        raise AssertionError(f"{self.line} never said {pattern!r}:\n{''.join(self.said)}")

    def finish(self) -> None:
        """Wait until it has ended by itself, and well."""
        code = self._process.wait(SECONDS)
        assert code == 0, f"{self.line} ended with {code}:\n{''.join(self.said)}"

    def kill(self) -> None:
        """Kill it with SIGKILL, in whatever it does."""
        assert self._process.poll() is None, f"{self.line} has ended by itself:\n{''.join(self.said)}"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(SECONDS)

    def stop(self) -> None:
        """End it in order, if it runs, and close what it speaks through."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._reader.join(SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line)
            if self._awaited.search(line):
                self._found.set()
        self._found.set()


def lines_of(example: str) -> list[str]:
    """Return the commands of an example's page, in order, without comments."""
    text = (PROJECT / "examples" / example / "README.md").read_text("utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]
