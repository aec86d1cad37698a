"""Stores on each engine for the worker's tests."""

from tests.conformance.stores import *  # noqa: F403
