"""Stores on each engine for the outbox's tests."""

from tests.conformance.stores import *  # noqa: F403
