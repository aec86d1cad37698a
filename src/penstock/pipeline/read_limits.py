"""Stand-ins for what Spark's Python sources have had since 4.2: how much of a stream a batch may take.

Spark 4.0 and 4.1 never see them: their sources are asked for the latest offset without a limit, and the
reader keeps its own (`place_keeping.py`).
"""

from dataclasses import dataclass


class ReadLimit:
    """How much a batch may take."""


@dataclass(frozen=True)
class ReadAllAvailable(ReadLimit):
    """All there is."""


@dataclass(frozen=True)
class ReadMaxRows(ReadLimit):
    """At most so many rows."""

    max_rows: int


class SupportsTriggerAvailableNow:
    """A source that can be told to end at what it holds now."""
