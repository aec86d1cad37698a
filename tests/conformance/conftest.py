"""One engine after the other, each in an empty store of its own."""

import pytest

# The suites are plain modules; their asserts shall say as much as those of a test file.
pytest.register_assert_rewrite(
    "penstock.testing.log_suite",
    "penstock.testing.log_contents",
    "penstock.testing.log_growing",
    "penstock.testing.log_keeping",
    "penstock.testing.log_reading",
    "penstock.testing.outbox_suite",
    "penstock.testing.handling_suite",
)

from penstock.log.contract import Log  # noqa: E402
from tests.conformance.engines import StoreEngine  # noqa: E402
from tests.conformance.stores import *  # noqa: E402, F403


@pytest.fixture
def log(engine: StoreEngine) -> Log:
    """Give the log of a store."""
    return engine.outbox.log
