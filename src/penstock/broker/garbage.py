"""Keeps Python's cycle collector from stopping the loop.

A full collection walks every object of the process while no thread works: tens of milliseconds, and a request
with a long list makes enough objects to start several. Nearly all of our objects are freed without it. The
remains of grpcio's calls are not: so a collection is due now and then, and deferred while there is much to
walk.
"""

import gc
import sys
from typing import Any

_YOUNG, _MIDDLE = 700, 10  # Python's own
_DUE, _OVERDUE = 100, 1_000  # middle collections since the last full one
_MORE_BLOCKS = 200_000  # memory blocks above those at the start: requests with long lists may be in progress


def collect_rarely() -> None:
    """Never walk the present objects again, and later ones only now and then."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OVERDUE)
    most = sys.getallocatedblocks() + _MORE_BLOCKS

    def look(phase: str, found: dict[str, Any]) -> None:
        if phase == "stop" and found["generation"]:
            gc.set_threshold(_YOUNG, _MIDDLE, _DUE if sys.getallocatedblocks() < most else _OVERDUE)

    gc.callbacks.append(look)
