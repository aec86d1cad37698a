"""As `test_log.py`, where every statement runs in its second form."""

from tests.conformance.test_log import *  # noqa: F403
