"""As `test_periodic.py`, where every statement runs in its second form."""

from tests.conformance.test_periodic import *  # noqa: F403
