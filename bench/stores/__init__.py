"""Databases to measure on: what the cases about the outbox and the log share.

A case names an engine (`postgres`, `sqlite`) and a load; a store is then filled once per case and copied for
each round, so that every round begins with the same rows.
"""

from bench.stores.contract import Engine, EngineOpener, Store
from bench.stores.filling import EVEN, ONE_KEY, Load, empty, filled
from bench.stores.mover import Mover
from bench.stores.postgres import postgres
from bench.stores.setups import mover
from bench.stores.sqlite import sqlite

__all__ = [
    "EVEN",
    "ONE_KEY",
    "Engine",
    "EngineOpener",
    "Load",
    "Mover",
    "Store",
    "empty",
    "filled",
    "mover",
    "postgres",
    "sqlite",
]
