"""The counts of the Kafka port: kept without a lock in the loop's thread, published now and then."""

from collections import Counter

from penstock import metrics
from penstock.wire.kafka.apis import APIS

from .flow_control import FlowControl

_MOST_TIMES = 10_000  # between two publications; the rest of a flood is alike


class BrokerMeasures:
    """Counts of one broker. Lives in the loop's thread."""

    def __init__(self, store: str, flow: FlowControl) -> None:
        self._store, self._flow = store, flow
        self.requests: Counter[int] = Counter()  # by API
        self.produced: Counter[str] = Counter()  # bytes of records that were written, by topic
        self.fetched: Counter[str] = Counter()  # bytes of records that were sent, by topic
        self.throttled_ms = 0  # the waiting times that were sent to clients
        self.refused = 0  # connections that were refused, or ended for their behaviour
        self._damaged: Counter[str] = Counter()
        self._seconds: list[float] = []

    def answered(self, seconds: float) -> None:
        """Record how long a produce request took to be acknowledged."""
        if len(self._seconds) < _MOST_TIMES:
            self._seconds.append(seconds)

    def damaged(self, topic: str) -> None:
        """Count a client's read that met damage."""
        self._damaged[topic] += 1

    def tell(self, connections: int) -> None:
        """Publish the counts since the last time, and the gauges."""
        for key, count in self.requests.items():
            metrics.KAFKA_REQUESTS.add(count, api=APIS[key].name if key in APIS else "unknown")
        for series, counts in (
            (metrics.KAFKA_PRODUCED, self.produced),
            (metrics.KAFKA_FETCHED, self.fetched),
            (metrics.KAFKA_DAMAGED, self._damaged),
        ):
            for topic, count in counts.items():
                series.add(count, topic=topic)
            counts.clear()
        self.requests.clear()
        metrics.KAFKA_PRODUCE_SECONDS.observe(*self._seconds)
        self._seconds.clear()
        metrics.KAFKA_THROTTLED.add(self.throttled_ms / 1000)
        metrics.KAFKA_REFUSED.add(self.refused)
        self.throttled_ms = self.refused = 0
        metrics.KAFKA_CONNECTIONS.set(connections, store=self._store)
        metrics.KAFKA_BYTES.set(self._flow.requests.used, store=self._store, of="requests")
        metrics.KAFKA_BYTES.set(self._flow.answers.used, store=self._store, of="answers")

    def forget(self) -> None:
        """Publish a last time, and reset the gauges."""
        self.tell(0)
        metrics.KAFKA_CONNECTIONS.forget(self._store)
        for of in ("requests", "answers"):
            metrics.KAFKA_BYTES.forget(self._store, of)
