"""As `test_groups.py`, where every statement runs in its second form."""

from tests.conformance.test_groups import *  # noqa: F403
