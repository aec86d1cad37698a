"""A rival with its jobs waiting, in a database of the same server as ours."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path

from bench.case import Extra
from bench.peer_process import PeerTalk
from bench.peers import Peer
from bench.run import Run
from bench.stores.postgres import PostgresEngine, postgres

_HERE = Path(__file__).parent

PGQUEUER = Peer(name="pgqueuer", requirements=("pgqueuer[asyncpg]==1.6.0", "uvloop==0.23.0"))
PROCRASTINATE = Peer(name="procrastinate", requirements=("procrastinate==3.10.0", "psycopg[binary]==3.3.8"))

_SCRIPTS = {PGQUEUER.name: "pgqueuer_script.py", PROCRASTINATE.name: "procrastinate_script.py"}


class Rival:
    """A running process of a rival, connected, that has not begun to work; made by `rival`."""

    def __init__(self, talk: PeerTalk) -> None:
        self._talk = talk

    def work(self, run: Run) -> Extra:
        """Let it do all that waits. Raises an AssertionError when it did not."""
        done = self._talk.ask(["work", run.records])
        assert done == run.records, f"{done} of {run.records} were done"
        return None


@cache
def rival(peer: Peer) -> Callable[[Run], AbstractContextManager[Rival]]:
    """Return the setup: jobs are enqueued once per case, and each round works on a copy."""
    script = _HERE / _SCRIPTS[peer.name]

    @contextmanager
    def enqueued(run: Run) -> Iterator[str]:
        url = run.once(postgres).create_bare()
        with peer.talk(script, [url]) as talk:
            talk.ask(["install"])
            talk.ask(["enqueue", run.records])
            talk.ask(["close"])
        yield url

    @contextmanager
    def made(run: Run) -> Iterator[Rival]:
        engine: PostgresEngine = run.once(postgres)
        url = engine.copy_bare(run.once(enqueued))
        try:
            with peer.talk(script, [url]) as talk:
                talk.ask(["ready"])
                run.watch("worker", talk.pid)
                engine.watch(run)
                yield Rival(talk)
        finally:
            engine.drop_bare(url)

    return made


def work(run: Run, rival: Rival) -> Extra:
    """The body."""
    return rival.work(run)
