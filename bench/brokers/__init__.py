"""Brokers side by side: ours, Apache Kafka and NATS as processes of their own, under the same loads.

A case names servers and loads. A server is started once for a case and warmed by its first round, Apache
Kafka before that; its CPU stands alone in `server_cpu_us`, that of the client in `own_cpu_us`.
"""

from bench.brokers.contenders import NATS, kafka, nats, penstock, penstock_on
from bench.brokers.loads import KafkaLoad, Load, NatsLoad
from bench.brokers.server import Server, ServerOpener

__all__ = [
    "NATS",
    "KafkaLoad",
    "Load",
    "NatsLoad",
    "Server",
    "ServerOpener",
    "kafka",
    "nats",
    "penstock",
    "penstock_on",
]
