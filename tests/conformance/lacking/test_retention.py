"""As `test_retention.py`, where every statement runs in its second form."""

from tests.conformance.test_retention import *  # noqa: F403
