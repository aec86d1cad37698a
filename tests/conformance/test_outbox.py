"""Every engine's outbox keeps its promises, from the caller's transaction to the handlers."""

from tests.conformance.stores import on_every_engine
from tests.suites.handling_suite import HandlingSuite
from tests.suites.outbox_suite import PublishingSuite


@on_every_engine
class TestPublishing(PublishingSuite):
    """Into the log, once per engine."""


@on_every_engine
class TestHandling(HandlingSuite):
    """To the handlers, once per engine."""
