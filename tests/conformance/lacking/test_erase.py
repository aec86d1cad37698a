"""As `test_erase.py`, where every statement runs in its second form."""

from tests.conformance.test_erase import *  # noqa: F403
