"""Penstock: from your database to your lakehouse; every event, in order per key, once in your tables.

This module is the façade: `__all__` is the public API, and no room imports this module. `Outbox` imports most
of the package, so it is loaded on first use: every process of Spark imports this package, and none needs it.
"""

import typing

from penstock.errors import Error
from penstock.model.avro import Avro
from penstock.model.connections import AsyncConnection, Connection, Tx
from penstock.model.context import context
from penstock.model.outcome import Cancel, Done, Retry, Snooze
from penstock.model.partition import partition_of
from penstock.model.protobuf import Protobuf
from penstock.model.record import Record
from penstock.model.retry import Custom, Exponential, Fixed, Linear, PowerOfTwo, RetryPolicy

if typing.TYPE_CHECKING:
    from penstock.app import Outbox

__all__ = [
    "AsyncConnection",
    "Avro",
    "Cancel",
    "Connection",
    "Custom",
    "Done",
    "Error",
    "Exponential",
    "Fixed",
    "Linear",
    "Outbox",
    "PowerOfTwo",
    "Protobuf",
    "Record",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "Tx",
    "context",
    "partition_of",
]

if not typing.TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> type:
        """Import `Outbox` on first use."""
        if name != "Outbox":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from penstock.app import Outbox

        globals()[name] = Outbox
        return Outbox

    def __dir__() -> list[str]:
        """Return the names as if `Outbox` were imported."""
        return sorted({*globals(), *__all__})
