"""Penstock: from your database to your lakehouse; every event, in order per key, once in your tables.

This module is the façade: what stands in `__all__` is the public API, and no room imports it.
"""

from penstock.app import Outbox
from penstock.errors import Error
from penstock.model.avro import Avro
from penstock.model.connections import AsyncConnection, Connection, Tx
from penstock.model.context import context
from penstock.model.outcome import Cancel, Done, Retry, Snooze
from penstock.model.partition import partition_of
from penstock.model.protobuf import Protobuf
from penstock.model.record import Record
from penstock.model.retry import Custom, Exponential, Fixed, Linear, PowerOfTwo, RetryPolicy

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
