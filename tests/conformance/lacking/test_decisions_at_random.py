"""As `test_decisions_at_random.py`, where every statement runs in its second form."""

from tests.conformance.test_decisions_at_random import *  # noqa: F403
