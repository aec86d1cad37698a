"""Attacks on the doors of a `penstock serve`: how long honest clients wait beside each, and its memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.case import Case, Variant
from bench.run import Run, Size
from tests.access.assaults import ASSAULTS, Assault, measured, served
from tests.gateway.doors_process import DoorsProcess


@contextmanager
def _server(run: Run) -> Iterator[DoorsProcess]:
    with TemporaryDirectory() as folder, served(Path(folder)) as made:
        yield made


def _beside(assault: Assault | None) -> Callable[[Run, DoorsProcess], dict[str, float]]:
    return lambda run, made: measured(made, assault, run.records)


CASE = Case(
    name="attacks",
    about="honest aiokafka and REST clients beside each attack, for so many seconds",
    variants=[
        Variant(name, _beside(assault), setup=_server, records=Size(quick=5, full=10))
        for name, assault in ASSAULTS.items()
    ],
    rounds=1,
    warm_up=False,
)
