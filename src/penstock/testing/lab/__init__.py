"""The crash laboratory: tests that handlers are idempotent by killing them at every place."""

from .laboratory import CrashLab
from .report import LabFinding, Report
from .visits import Visit
from .worlds import World

__all__ = ["CrashLab", "LabFinding", "Report", "Visit", "World"]
