"""Every engine's log keeps the contract."""

from penstock.testing.log_suite import LogSuite
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`


class TestLog(LogSuite):
    """The suite, once per engine."""
