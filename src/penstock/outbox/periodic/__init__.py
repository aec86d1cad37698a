"""Periodic events: schedules, whose ticks are published once over all workers."""
