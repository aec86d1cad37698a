"""As `test_group_store.py`, where every statement runs in its second form."""

from tests.conformance.test_group_store import *  # noqa: F403
