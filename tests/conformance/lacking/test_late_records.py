"""As `test_late_records.py`, where every statement runs in its second form."""

from tests.conformance.test_late_records import *  # noqa: F403
