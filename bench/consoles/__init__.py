"""A store of a size that people have after a while, and the console of it."""

from bench.consoles.large_store import LARGE, SMALL, StoreSize, fill

__all__ = ["LARGE", "SMALL", "StoreSize", "fill"]
