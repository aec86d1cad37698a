"""A peer's script as a process: run once, or kept for a talk. JSON in and out.

The process sees nothing of our environment's packages, leads a session of its own, and is ended with it
when the benchmark is interrupted.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from bench.errors import PeerFailed

_LAUNCHER = Path(__file__).with_name("launcher.py")
_LAST_WORDS = 2000  # bytes of stderr that an error repeats
_CLOSE_SECONDS = 10


class _Cost(msgspec.Struct):
    exit_code: int
    wall_seconds: float
    cpu_seconds: float
    rss_peak_mb: float


@dataclass(frozen=True)
class PeerRun:
    """What a script printed, and what its process cost from start to end; waited-for children included."""

    output: Any
    wall_seconds: float
    cpu_seconds: float
    rss_peak_mb: float


def run_once(python: Path, script: Path, args: Sequence[str], stdin: object) -> PeerRun:
    """Run a script to its end. Raises PeerFailed when it ends badly or prints no JSON."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "in").write_text(json.dumps(stdin))
        with (place / "in").open() as given, (place / "out").open("wb") as out, (place / "err").open("wb") as err:
            launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(place / "cost")]
            process = subprocess.Popen(
                [*launcher, str(python), str(script), *args],
                stdin=given,
                stdout=out,
                stderr=err,
                env=clean_environment(),
                start_new_session=True,
            )
            try:
                process.wait()
            except BaseException:
                _end(process)
                raise
        if process.returncode:
            raise PeerFailed(f"{script} could not be started: {_tail(place / 'err')}")
        cost = msgspec.json.decode((place / "cost").read_bytes(), type=_Cost)
        if cost.exit_code:
            raise PeerFailed(f"{script} ended with exit code {cost.exit_code}: {_tail(place / 'err')}")
        output = _decoded(script, (place / "out").read_text())
    return PeerRun(output, cost.wall_seconds, cost.cpu_seconds, cost.rss_peak_mb)


class PeerTalk:
    """A running script that answers lines; its `pid` can be watched. Made by `start`."""

    def __init__(self, script: Path, process: "subprocess.Popen[str]", stderr: IO[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._script = script
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, stderr

    def ask(self, message: object) -> Any:
        """Send one line of JSON and return the one that answers it. Raises PeerFailed."""
        with suppress(BrokenPipeError):  # it has ended: the empty answer says so
            self._stdin.write(json.dumps(message) + "\n")
            self._stdin.flush()
        line = self._stdout.readline()
        if not line:
            self._stderr.seek(0)
            last_words = self._stderr.read()[-_LAST_WORDS:].decode(errors="replace").strip()
            raise PeerFailed(f"{self._script} ended instead of answering: {last_words}")
        return _decoded(self._script, line)


@contextmanager
def start(python: Path, script: Path, args: Sequence[str]) -> Iterator[PeerTalk]:
    """Start a script for a talk; at the end close its stdin and wait, and end it when it stays."""
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [str(python), str(script), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=clean_environment(),
            start_new_session=True,
        )
        try:
            yield PeerTalk(script, process, stderr)
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_CLOSE_SECONDS)
        finally:
            _end(process)


def clean_environment() -> dict[str, str]:
    """Return our environment without what would show our own packages to another Python."""
    ours = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    return {name: value for name, value in os.environ.items() if name not in ours}


def _end(process: "subprocess.Popen[Any]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # it leads its own session, so this is it and its children
    process.communicate()  # waits, and closes the pipes if there are any


def _decoded(script: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise PeerFailed(f"{script} printed something that is not JSON: {text[:200]!r}") from exc


def _tail(path: Path) -> str:
    return path.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip()
