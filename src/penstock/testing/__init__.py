"""The shipped kit for tests of your own: a clock you move, suites for engines, and the demo shop."""

from .clock import FakeClock

__all__ = ["FakeClock"]
