"""The shipped kit for tests of your own: an outbox in memory, a clock you move, suites for engines."""

from penstock.log.memory import MemoryDialect

from .clock import FakeClock
from .memory import memory_outbox

__all__ = ["FakeClock", "MemoryDialect", "memory_outbox"]
