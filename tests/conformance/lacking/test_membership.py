"""As `test_membership.py`, where every statement runs in its second form."""

from tests.conformance.test_membership import *  # noqa: F403
