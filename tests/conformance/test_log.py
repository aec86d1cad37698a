"""Every engine's log keeps the contract."""

from tests.conformance.stores import on_every_engine
from tests.suites.log_suite import LogSuite


@on_every_engine
class TestLog(LogSuite):
    """The suite, once per engine."""
