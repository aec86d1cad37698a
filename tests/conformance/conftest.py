"""One engine after the other, each in an empty store of its own."""

import pytest

# The suites are plain modules; their asserts shall say as much as those of a test file.
pytest.register_assert_rewrite(
    "tests.suites.log_suite",
    "tests.suites.log_contents",
    "tests.suites.log_growing",
    "tests.suites.log_keeping",
    "tests.suites.log_reading",
    "tests.suites.outbox_suite",
    "tests.suites.handling_suite",
)

from penstock.log.contract import Log  # noqa: E402
from tests.conformance.engines import StoreEngine  # noqa: E402
from tests.conformance.stores import *  # noqa: E402, F403


@pytest.fixture
def log(engine: StoreEngine) -> Log:
    """Give the log of a store."""
    return engine.outbox.log
