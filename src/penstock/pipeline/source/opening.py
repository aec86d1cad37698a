"""Opens the view of a topic: of a store, or of a Kafka cluster, as its address says."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.database.naming import Names
from penstock.log.kafka_settings import KafkaSettings

from ..address import is_kafka
from .view import TopicView


def open_view(url: str, names: Names, topic: str, kafka: KafkaSettings | None = None) -> TopicView:
    """Return a topic as planning sees it, of a store or of a Kafka cluster, reached as `kafka` says."""
    if not is_kafka(url):
        return TopicView(url, names, topic)
    from .kafka_view import KafkaView

    return KafkaView(url, topic, kafka)


class HeldView:
    """The view of one topic, opened once per query: on first use, and again after an error. For one thread.

    Only that of a database stays open: a directory has one writer, which must find it free, and the brokers
    of a Kafka cluster end idle connections. Tasks get none.
    """

    def __init__(self, url: str, names: Names, topic: str, kafka: KafkaSettings | None = None) -> None:
        self._open: TopicView | None = None
        self._where = url, names, topic, kafka

    @contextmanager
    def used(self) -> Iterator[TopicView]:
        """Yield the view. An error in the block closes it, and so does a file that was replaced."""
        if self._open is not None and not self._open.is_current():
            self.close()
        view, self._open = self._open or open_view(*self._where), None
        try:
            yield view
        except BaseException:
            view.close()
            raise
        if view.stays_open:
            self._open = view
        else:
            view.close()

    def close(self) -> None:
        """Close the view; a later use opens it again."""
        view, self._open = self._open, None
        if view is not None:
            view.close()

    def __del__(self) -> None:
        self.close()  # Spark may drop a reader without stopping it

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_open": None}
