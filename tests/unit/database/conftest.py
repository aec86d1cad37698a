"""Stores on each engine for the log's tests."""

from tests.conformance.stores import *  # noqa: F403
