"""The process of the broker: its free file descriptors, and Python's cycle collector."""

import errno
import gc
import logging
import os
import sys
from typing import Any

from penstock.clock import Clock

try:
    import resource
except ImportError:  # Windows has neither the module nor the limit
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("penstock.broker")

_OVER_SECONDS = 30.0  # of free descriptors before another lack is logged
_LACKS = (errno.EMFILE, errno.ENFILE)
_YOUNG, _MIDDLE = 700, 10  # Python's own
_DUE, _OVERDUE = 100, 1_000  # middle collections since the last full one
_MORE_BLOCKS = 200_000  # memory blocks above those at the start: requests with long lists may be in progress


class Descriptors:
    """Reports a lack of file descriptors, since the loop turns connections away silently."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lacked_at: float | None = None

    def look(self) -> None:
        """Log that none is free, unless that was logged and is not over yet."""
        now = self._clock.monotonic()
        if _is_one_left():
            if self._lacked_at is not None and now - self._lacked_at >= _OVER_SECONDS:
                self._lacked_at = None
            return
        if self._lacked_at is None:
            logger.warning(
                "new connections are turned away: this process has no file descriptors left, at its limit of "
                "%s (ulimit -n, or LimitNOFILE of its service); raise the limit, or lower broker.connections",
                _limit(),
            )
        self._lacked_at = now


def _is_one_left() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as exc:
        return exc.errno not in _LACKS
    return True


def _limit() -> str:
    return "unknown size" if resource is None else str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def collect_rarely() -> None:
    """Let the cycle collector walk no present object again, and later ones only now and then.

    A full collection walks every object of the process while no thread works: tens of milliseconds, and a request with
    a long list makes enough objects to start several. Nearly all of our objects are freed without it. The remains of
    grpcio's calls are not: so a collection is due now and then, and deferred while there is much to walk.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OVERDUE)
    most = sys.getallocatedblocks() + _MORE_BLOCKS

    def look(phase: str, found: dict[str, Any]) -> None:
        if phase == "stop" and found["generation"]:
            gc.set_threshold(_YOUNG, _MIDDLE, _DUE if sys.getallocatedblocks() < most else _OVERDUE)

    gc.callbacks.append(look)
