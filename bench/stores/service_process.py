"""The sequencing service in a process of its own, as in production: begun by a word, ended by a word."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from bench.package import sequencing_service_of

_SPAWN = multiprocessing.get_context("spawn")  # a fresh Python: nothing of ours in its memory
_END_SECONDS = 30


class ServiceProcess:
    """The process; made by `service_process`."""

    def __init__(self, pid: int, words: Connection) -> None:
        self.pid = pid
        self._words = words

    def begin(self) -> None:
        """Let it work; it has been waiting since it was started."""
        self._words.send("begin")
        self._words.recv()


@contextmanager
def service_process(url: str) -> Iterator[ServiceProcess]:
    """Start a process that can sequence a store, and end it with the block."""
    ours, its = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(url, its), daemon=True)
    process.start()
    its.close()
    try:
        ours.recv()
        assert process.pid is not None
        yield ServiceProcess(process.pid, ours)
    finally:
        ours.close()
        process.join(_END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(url: str, words: Connection) -> None:
    service = sequencing_service_of(url)
    words.send("ready")
    try:
        words.recv()
        service.start()
        words.send("begun")
        words.recv()  # never comes: the pipe's end is the word to stop
    except EOFError:
        service.stop()
