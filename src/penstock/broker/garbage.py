"""Python's collector of cycles, kept from stopping the loop.

A full collection walks every object of the process while nobody else works: tens of milliseconds, and a
request with a long list makes enough objects to start several. Nearly all of ours are freed without it. What
grpcio leaves behind is not: so one is due now and then, and put off while there is much to walk.
"""

import gc
import sys
from typing import Any

_YOUNG, _MIDDLE = 700, 10  # Python's own
_DUE, _OVERDUE = 100, 1_000  # collections of the middle since the last full one
_MORE_BLOCKS = 200_000  # of memory than at the start: requests with long lists may be under way


def collect_rarely() -> None:
    """Walk the objects that are there now never again, and all others only now and then."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OVERDUE)
    most = sys.getallocatedblocks() + _MORE_BLOCKS

    def look(phase: str, found: dict[str, Any]) -> None:
        if phase == "stop" and found["generation"]:
            gc.set_threshold(_YOUNG, _MIDDLE, _DUE if sys.getallocatedblocks() < most else _OVERDUE)

    gc.callbacks.append(look)
