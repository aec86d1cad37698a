"""File descriptors of the process: a lack of them is said, for the loop turns connections away silently."""

import errno
import logging
import os

from penstock.clock import Clock

try:
    import resource
except ImportError:  # there is none on Windows, and no such limit
    resource = None  # type: ignore[assignment]

logger = logging.getLogger("penstock.broker")

_OVER_SECONDS = 30.0  # for which there have to be some again before a lack is said again
_LACKS = (errno.EMFILE, errno.ENFILE)


class Descriptors:
    """Looks from time to time whether there is one left."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lacked_at: float | None = None

    def look(self) -> None:
        """Say that there are none left, unless it was said and is not over yet."""
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
