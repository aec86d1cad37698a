"""The shipped kit for your own tests: an outbox in memory, a clock to move, a crash laboratory."""

from penstock.database.sqlite.memory import MemoryDialect

from .clock import FakeClock
from .lab import CrashLab, Report, World
from .outbox import Scheduled, drain_until_idle, memory_outbox, published, relocated, scheduled

__all__ = [
    "CrashLab",
    "FakeClock",
    "MemoryDialect",
    "Report",
    "Scheduled",
    "World",
    "drain_until_idle",
    "memory_outbox",
    "published",
    "relocated",
    "scheduled",
]
