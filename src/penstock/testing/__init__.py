"""The shipped kit for tests of your own: a clock you move, suites for engines, and the demo shop."""

from penstock.testing.clock import FakeClock

__all__ = ["FakeClock"]
