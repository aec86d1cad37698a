"""Setups that more than one case uses."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from bench.run import Run
from bench.stores.filling import StoreSetup
from bench.stores.mover import Mover


def mover(store: StoreSetup) -> Callable[[Run], AbstractContextManager[Mover]]:
    """Return the setup that gives a mover on a store, connected and warm."""

    @contextmanager
    def made(run: Run) -> Iterator[Mover]:
        with store(run) as here, closing(Mover(here)) as mover:
            mover.warm()
            yield mover

    return made
