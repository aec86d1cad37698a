"""Reports a lack of file descriptors, since the loop turns connections away silently."""

import errno
import logging
import os

from penstock.clock import Clock

try:
    import resource
except ImportError:  # Windows has neither the module nor the limit
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("penstock.broker")

_OVER_SECONDS = 30.0  # of free descriptors before another lack is logged
_LACKS = (errno.EMFILE, errno.ENFILE)


class Descriptors:
    """Checks from time to time whether a descriptor is free."""

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
