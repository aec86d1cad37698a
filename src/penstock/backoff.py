"""How a loop waits: between looks when nothing comes, and when the database is away."""

import logging
from collections.abc import Callable
from random import SystemRandom

from penstock import metrics
from penstock.errors import Error, StoreUnreachable
from penstock.redaction import text, traced, words
from penstock.settings import Settings, setting

# Jitter has a source of its own: a program that seeds `random` must not make all its workers wait alike.
CHANCE = SystemRandom()


class PollingSettings(Settings, room="polling"):
    """How often a loop looks when no bell rings."""

    trigger: str = setting(
        "adaptive",
        "While nothing comes, pauses double (adaptive) or are all the same (fixed).",
        choices=("adaptive", "fixed"),
    )
    shortest_seconds: float = setting(0.05, "Pause between looks just after there was work.", at_least=0.001)
    longest_seconds: float = setting(
        1.0, "adaptive: longest pause between looks when nothing comes.", at_least=0.001
    )
    fixed_seconds: float = setting(2.0, "fixed: pause between looks when nothing comes.", at_least=0.001)

    @property
    def idle_seconds(self) -> float:
        """The longest pause of a loop while no bell rings."""
        return self.fixed_seconds if self.trigger == "fixed" else self.longest_seconds


class Backoff:
    """The pauses of one loop, doubling while nothing comes or all fails; and its troubles, each said once."""

    def __init__(
        self, name: str, polling: PollingSettings, is_told: Callable[[], bool] = lambda: False
    ) -> None:
        """`is_told`: whether a bell says what comes, so that there is less to look for."""
        self._name, self._polling, self._is_told = name, polling, is_told
        self._logger = logging.getLogger(f"penstock.{name}")
        self._pause = polling.shortest_seconds
        self._said, self._has_lost = "", False
        metrics.LOOP_FAILURES.add(0, loop=name)  # there from the start, so that the first one is seen to rise
        self.present_trouble = ""  # the error it waits on, in words; empty while it is well

    def active(self, *, rung: bool = True) -> float:
        """Return the pause after a look that found work: a short one, unless a bell says what comes next.

        `rung`: a bell had told of it. If not, somebody publishes without one.
        """
        if rung and self._is_told():
            return self.idle()
        self._pause = self._polling.shortest_seconds
        return self._pause

    def idle(self) -> float:
        """Return the pause after a look that found nothing; with jitter, unless it is fixed."""
        if self._polling.trigger == "fixed":
            return self._polling.fixed_seconds
        self._pause = min(self._pause * 2, self._polling.longest_seconds)
        return self._pause * CHANCE.uniform(0.95, 1.0)

    def trouble(self, error: Exception) -> float:
        """Log an error if it is new, with its trace if it is not one of ours; return how long to wait.

        A connection that is lost once is no trouble yet: a process that was paused loses those it had open.
        """
        if isinstance(error, StoreUnreachable) and not self._has_lost and not self._said:
            self._logger.info("%s has lost its connection and makes another", self._name)
            self._has_lost = True
        else:
            self.warn_once(error, f"{self._name} waits and tries again")
        metrics.LOOP_FAILURES.add(loop=self._name)
        pause, self._pause = self._pause, min(self._pause * 2, self._polling.longest_seconds)
        return pause + CHANCE.uniform(0, pause / 2)

    def warn_once(self, error: Exception, what: str) -> None:
        """Log an error unless the last one was of the same kind."""
        kind = type(error).__name__
        if kind != self._said:
            trace = None if isinstance(error, Error) else traced(error)
            fields = {"error": words(error)}
            self._logger.warning("%s: %s", what, text(error) or kind, exc_info=trace, extra=fields)
        self._said, self.present_trouble = kind, text(error) or kind

    def is_well(self) -> None:
        """Take note that it works; log that if it did not before."""
        self._has_lost = False
        if self._said:
            self._logger.warning("%s goes on", self._name)
            self._said = self.present_trouble = ""
