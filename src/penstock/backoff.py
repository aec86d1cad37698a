"""The back-off of a loop: between polls while it is idle, and while the database is unreachable."""

import logging
from collections.abc import Callable
from random import SystemRandom

from penstock import metrics
from penstock.errors import Error, StoreUnreachable
from penstock.redaction import text, traced, words
from penstock.settings import Settings, setting

# Jitter has its own source: a program that seeds `random` must not give all its workers the same pauses.
CHANCE = SystemRandom()


class PollingSettings(Settings, room="polling"):
    """How often a loop polls when no bell rings."""

    trigger: str = setting(
        "adaptive", "Pauses of an idle loop double (adaptive) or stay the same (fixed).", choices=("adaptive", "fixed")
    )
    shortest_seconds: float = setting(0.05, "Pause before the next poll just after work.", at_least=0.001)
    longest_seconds: float = setting(1.0, "adaptive: longest pause between polls when idle.", at_least=0.001)
    fixed_seconds: float = setting(2.0, "fixed: pause between polls when idle.", at_least=0.001)

    @property
    def idle_seconds(self) -> float:
        """The longest pause of an idle loop."""
        return self.fixed_seconds if self.trigger == "fixed" else self.longest_seconds


class Backoff:
    """The pauses of one loop, which double while it is idle or failing; and its errors, each logged once."""

    def __init__(self, name: str, polling: PollingSettings, is_told: Callable[[], bool] = lambda: False) -> None:
        """`is_told`: whether a bell announces new work, so that less polling is needed."""
        self._name, self._polling, self._is_told = name, polling, is_told
        self._logger = logging.getLogger(f"penstock.{name}")
        self._pause = polling.shortest_seconds
        self._logged_kind, self._has_lost = "", False
        metrics.LOOP_FAILURES.add(0, loop=name)  # present from the start, so that the first failure shows
        self.present_trouble = ""  # the error that it waits on, in words; empty while it is well

    def active(self, *, rung: bool = True) -> float:
        """Return the pause after a poll that found work: short, unless a bell announces more (`rung`: it did so)."""
        if rung and self._is_told():
            return self.idle()
        self._pause = self._polling.shortest_seconds
        return self._pause

    def idle(self) -> float:
        """Return the pause after an empty poll; with jitter, unless it is fixed."""
        if self._polling.trigger == "fixed":
            return self._polling.fixed_seconds
        self._pause = min(self._pause * 2, self._polling.longest_seconds)
        return self._pause * CHANCE.uniform(0.95, 1.0)

    def trouble(self, error: Exception) -> float:
        """Log a new error, except the first lost connection, which a pause of the process causes; return the pause."""
        if isinstance(error, StoreUnreachable) and not self._has_lost and not self._logged_kind:
            self._logger.info("%s has lost its connection and opens another", self._name)
            self._has_lost = True
        else:
            self.warn_once(error, f"{self._name} waits and retries")
        metrics.LOOP_FAILURES.add(loop=self._name)
        pause, self._pause = self._pause, min(self._pause * 2, self._polling.longest_seconds)
        return pause + CHANCE.uniform(0, pause / 2)

    def warn_once(self, error: Exception, what: str) -> None:
        """Log an error unless the last one was of the same kind."""
        kind = type(error).__name__
        if kind != self._logged_kind:
            trace = None if isinstance(error, Error) else traced(error)
            fields = {"error": words(error)}
            self._logger.warning("%s: %s", what, text(error) or kind, exc_info=trace, extra=fields)
        self._logged_kind, self.present_trouble = kind, text(error) or kind

    def is_well(self) -> None:
        """Record a success; log the recovery from an earlier error."""
        self._has_lost = False
        if self._logged_kind:
            self._logger.warning("%s has recovered", self._name)
            self._logged_kind = self.present_trouble = ""
