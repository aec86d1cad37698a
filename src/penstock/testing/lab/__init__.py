"""The crash laboratory: are handlers idempotent? Kills them at every place, and compares how it ends."""

from .laboratory import CrashLab
from .report import Finding, LabFinding, Report
from .visits import Visit
from .worlds import World

__all__ = ["CrashLab", "Finding", "LabFinding", "Report", "Visit", "World"]
