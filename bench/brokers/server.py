"""A server in a process of its own: started, waited for, ended; ours and the peers' alike."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.errors import NotMeasured
from bench.peer_process import clean_environment
from bench.run import Run

_START_SECONDS, _END_SECONDS = 90.0, 30.0
_LAST_WORDS = 2000


@dataclass(frozen=True)
class Server:
    """A server that answers: where, and its process."""

    address: str
    pid: int

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.address.rpartition(":")
        return host, int(port)


ServerOpener = Callable[[Run], AbstractContextManager[Server]]


class ServerProcess:
    """One process of a server; its words go to a file."""

    def __init__(self, command: Sequence[str], words: Path, address: str, env: Mapping[str, str] | None = None) -> None:
        self._words, self.address = words, address
        with words.open("ab") as out:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**clean_environment(), **(env or {})},
                start_new_session=True,
            )

    @property
    def server(self) -> Server:
        """Where it answers."""
        return Server(self.address, self.process.pid)

    def wait(self, is_ready: Callable[[Server], bool]) -> None:
        """Wait until it is ready. Raises NotMeasured when it ends instead, or never is."""
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            with suppress(OSError):
                if is_ready(self.server):
                    return
            time.sleep(0.005)
        last = self._words.read_bytes()[-_LAST_WORDS:].decode(errors="replace")
        raise NotMeasured(f"the server {self._words.stem} did not start: {last}")

    def kill(self) -> None:
        """End it without a word."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it as a service is ended."""
        self.process.terminate()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def running(started: ServerProcess, is_ready: Callable[[Server], bool]) -> Iterator[Server]:
    """Give a server once it is ready; stop it with the block."""
    try:
        started.wait(is_ready)
        yield started.server
    finally:
        started.stop()


def free_port() -> int:
    """Return a port on loopback that nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])
