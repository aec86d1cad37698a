"""Retention while the Kafka port is served: one of all brokers deletes records that have expired."""

import logging

from penstock.delivery.retention import Retention
from penstock.delivery.retention_rule import RetentionSettings
from penstock.errors import Error

from .core import BrokerCore

logger = logging.getLogger("penstock.retention")


class RetentionTask:
    """Runs passes from time to time. Workers do the same: a double pass deletes once."""

    def __init__(self, broker: BrokerCore) -> None:
        settings = RetentionSettings.load()
        self._broker, self._seconds = broker, settings.interval.total_seconds()
        self._retention = Retention(broker.store, settings, broker.clock)
        self._running = False
        self._next = broker.clock.monotonic() + self._seconds
        broker.ticks.append(self.tick)

    def tick(self) -> None:
        """Begin a pass when it is due."""
        broker, now = self._broker, self._broker.clock.monotonic()
        if self._running or now < self._next or broker.is_stopping:
            return
        self._next = now + self._seconds
        if broker.cluster.nodes[0].id == broker.cluster.id:
            self._running = True
            broker.spawn(None, self._run())

    async def _run(self) -> None:
        try:
            if (await self._broker.run(self._retention.run)).full:
                self._next = 0.0
        except Error as exc:
            logger.warning("retention waits and tries again: %s", exc)
        finally:
            self._running = False
