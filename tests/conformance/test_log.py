"""Every engine's log keeps the contract."""

from penstock.testing.log_suite import LogSuite


class TestLog(LogSuite):
    """The suite, once per engine."""
