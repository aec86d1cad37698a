"""As `test_dead_letters.py`, where every statement runs in its second form."""

from tests.conformance.test_dead_letters import *  # noqa: F403
