"""Python's collector of cycles, kept from stopping the loop.

A full collection walks every object of the process while nobody else works: tens of milliseconds, and a
request with a long list makes enough objects to start several. Nearly all of ours are freed without it.
"""

import gc

_YOUNG, _MIDDLE, _FULL = 700, 10, 10_000  # the first two are Python's own; a full one comes very rarely


def collect_rarely() -> None:
    """Walk the objects that are there now never again, and all others only now and then."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)
