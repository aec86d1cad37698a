"""As `test_outbox.py`, where every statement runs in its second form."""

from tests.conformance.test_outbox import *  # noqa: F403
