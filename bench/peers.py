"""Peers: other libraries that we compare with, each in a virtual environment of its own.

Owns `.bench/venvs/`. An environment is named after what is in it, so other requirements or another Python
make another one. Its mark is written last: a folder without the mark is half-made and is made again.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bench.errors import NotMeasured
from bench.home import HOME
from bench.peer_process import PeerRun, PeerTalk, clean_environment, run_once, start

_MARK = "complete"
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--retries", "2", "--timeout", "20")


def _quiet(text: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One library, pinned, and the Python that has it.

    `ensure` may be called at any time and does nothing when the environment is there. Two runs that make
    the same environment at once are not expected.
    """

    name: str
    requirements: Sequence[str] = ()
    home: Path = field(default=HOME)

    @property
    def folder(self) -> Path:
        """Where its environment lives."""
        contents = "\n".join([sys.version, sys.base_prefix, *self.requirements])
        return self.home / "venvs" / f"{self.name}-{hashlib.sha256(contents.encode()).hexdigest()[:12]}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def ensure(self, say: Callable[[str], None] = _quiet) -> None:
        """Make the environment unless it is there. Raises NotMeasured when it cannot be made."""
        if (self.folder / _MARK).exists() and self.python.exists():
            return
        say(f"peer {self.name}: making its virtual environment (first use)")
        shutil.rmtree(self.folder, ignore_errors=True)
        self._command([sys.executable, "-m", "venv", "--without-pip", str(self.folder)])
        if self.requirements:
            # Our own pip fills it: giving every environment a pip takes longer than most peers themselves.
            self._command([sys.executable, *_PIP, "--python", str(self.python), "install", *self.requirements])
        (self.folder / _MARK).touch()

    def run(self, script: Path, args: Sequence[str] = (), stdin: object = None) -> PeerRun:
        """Run a script in it once: JSON in, JSON out, and what that process cost. Raises PeerFailed."""
        self.ensure()
        return run_once(self.python, script, args, stdin)

    def talk(self, script: Path, args: Sequence[str] = ()) -> AbstractContextManager[PeerTalk]:
        """Start a script in it that answers each line of JSON with one, so that its start is not measured."""
        self.ensure()
        return start(self.python, script, args)

    def _command(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment())
        if done.returncode:
            shutil.rmtree(self.folder, ignore_errors=True)
            what = " ".join(self.requirements) or "a virtual environment"
            raise NotMeasured(f"peer {self.name}: could not install {what}: {_last_error(done)}")


def _last_error(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [f"exit code {done.returncode}"])[-1]
