"""Every engine's log keeps the contract."""

from penstock.testing.log_suite import LogSuite
from tests.conformance.stores import on_every_engine


@on_every_engine
class TestLog(LogSuite):
    """The suite, once per engine."""
