"""As `test_dead_choices.py`, where every statement runs in its second form."""

from tests.conformance.test_dead_choices import *  # noqa: F403
