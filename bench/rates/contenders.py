"""A contender: a publisher and a worker that stand ready, whoever's they are."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from bench import rivals
from bench.peer_process import PeerTalk
from bench.peers import Peer
from bench.rivals.pacing import Pace, Row
from bench.run import Run
from bench.stores.postgres import PostgresEngine, postgres

MOST_CONNECTIONS = 8
_FOLDER = Path(rivals.__file__).parent


class Contender(Protocol):
    """Publishes at a pace and says what was handled."""

    def publish(self, pace: Pace) -> list[Row]:
        """Publish, an event per transaction; return each number, due time and commit."""

    def wait(self, count: int, seconds: float) -> int:
        """Wait until the worker has handled so many since the last look, or so long; return how many."""

    def seen(self) -> list[tuple[int, int]]:
        """Return the number and moment of each event that was handled since the last look."""


ContenderOpener = Callable[[Run], AbstractContextManager[Contender]]


class RivalProcesses:
    """Two processes of a rival's script that answer the words of `rivals/flow.py`."""

    def __init__(self, publisher: PeerTalk, worker: PeerTalk) -> None:
        self._publisher, self._worker = publisher, worker

    def publish(self, pace: Pace) -> list[Row]:
        """Publish."""
        return [(row[0], row[1], row[2]) for row in self._publisher.ask(["publish", asdict(pace)])]

    def wait(self, count: int, seconds: float) -> int:
        """Wait for the worker."""
        return int(self._worker.ask(["wait", count, seconds]))

    def seen(self) -> list[tuple[int, int]]:
        """Ask the worker."""
        return [(row[0], row[1]) for row in self._worker.ask(["seen"])]


@contextmanager
def processes(
    run: Run, peer: Peer, script: str, address: str, *, connections: int, is_new: bool = False
) -> Iterator[Contender]:
    """Start both processes of a rival and let its worker work; in a new place it makes its tables first."""
    path = _FOLDER / script
    with peer.talk(path, [address]) as publisher, peer.talk(path, [address]) as worker:
        if is_new:
            publisher.ask(["install"])
        publisher.ask(["connect", connections])
        worker.ask(["work"])
        run.watch("publisher", publisher.pid)
        run.watch("worker", worker.pid)
        yield RivalProcesses(publisher, worker)


@cache
def rival_on_postgres(peer: Peer, script: str) -> ContenderOpener:
    """Return the opener of a rival on a new copy of its empty tables."""

    @contextmanager
    def installed(run: Run) -> Iterator[str]:
        url = run.once(postgres).create_bare()
        with peer.talk(_FOLDER / script, [url]) as talk:
            talk.ask(["install"])
        yield url

    @contextmanager
    def opened(run: Run) -> Iterator[Contender]:
        engine: PostgresEngine = run.once(postgres)
        url = engine.copy_bare(run.once(installed))
        try:
            engine.watch(run)
            with processes(run, peer, script, url, connections=MOST_CONNECTIONS) as contender:
                yield contender
        finally:
            engine.drop_bare(url)

    return opened


def rival_on_sqlite(peer: Peer, script: str) -> ContenderOpener:
    """Return the opener of a rival on a new file."""

    @contextmanager
    def opened(run: Run) -> Iterator[Contender]:
        with TemporaryDirectory(prefix="penstock-bench-") as folder:
            path = str(Path(folder) / "queue.db")
            with processes(run, peer, script, path, connections=1, is_new=True) as contender:
                yield contender

    return opened
