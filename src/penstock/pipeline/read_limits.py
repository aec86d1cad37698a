"""Stand-ins for the read limits that Spark's Python sources have since 4.2.

Spark 4.0 and 4.1 never see them: they request the latest offset without a limit, and the reader keeps its own
(`place_keeping.py`).
"""

from dataclasses import dataclass


class ReadLimit:
    """The limit of a batch."""


@dataclass(frozen=True)
class ReadAllAvailable(ReadLimit):
    """No limit: all available records."""


@dataclass(frozen=True)
class ReadMaxRows(ReadLimit):
    """At most `max_rows` rows."""

    max_rows: int


class SupportsTriggerAvailableNow:
    """A source that can be told to end at its current end."""
