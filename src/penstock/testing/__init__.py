"""The shipped kit for your own tests: an outbox in memory, a clock to move, a crash laboratory."""

from penstock.database.sqlite.memory import MemoryDialect

from .clock import FakeClock
from .idling import drain_until_idle
from .lab import CrashLab, Report, World
from .memory import memory_outbox
from .relocation import relocated
from .seeing import Scheduled, published, scheduled

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
