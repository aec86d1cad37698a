"""A topic of a Kafka cluster as planning sees it. Needs the codec of Kafka's batches, which is an extra."""

from collections.abc import Collection, Sequence

from penstock.log.contract import LogIdentity, Position, Topic
from penstock.log.kafka_form import entries_of
from penstock.log.kafka_settings import KafkaSettings

from ..history import LogNow, mark_of
from ..offsets import Ends, Piece
from .kafka_topic import FETCH_BYTES, KafkaTopicReader
from .view import AdmittedPiece, Heads, TopicView, holds


class KafkaView(TopicView):
    """One topic of a Kafka cluster. It has no holds on retention, and no barriers where the topic grew."""

    stays_open = False

    def __init__(self, url: str, topic: str, settings: KafkaSettings | None = None) -> None:
        self._reader = KafkaTopicReader(url, topic, settings)

    def identity(self) -> LogIdentity:
        """Return the id of the cluster, with a constant incarnation, for a cluster has none."""
        return self._reader.known().identity

    def topic(self) -> Topic:
        return self._reader.known().topic

    def heads(self) -> Heads:
        return Heads(self.topic(), self._reader.bounds())

    def present(self, heads: Heads, places: Collection[Position]) -> LogNow:
        """Return the topic's state now, with marks of the whole content of the records at some positions."""
        held = [place for place in places if holds(heads, place)]
        marks = {
            place: mark_of(repr((each.id, each.type, each.timestamp_ms, each.key, each.value, each.headers)))
            for place, each in self._reader.entries_at(held).items()
        }
        return LogNow(self.identity(), heads.topic, heads.bounds, marks)

    def fitting(self, topic: Topic, pieces: Sequence[Piece], share: int | None) -> dict[int, AdmittedPiece]:
        """Return how much of each piece fits into a number of bytes, by reading the records themselves."""
        return {piece.partition: self._fitting(topic, piece, share) for piece in pieces}

    def _fitting(self, topic: Topic, piece: Piece, share: int | None) -> AdmittedPiece:
        size = 0
        for low, _, batch in self._reader.batches(*piece, max_bytes=min(share or 1, FETCH_BYTES)):
            for each in entries_of(batch, topic.id, piece.partition):
                if not low <= each.offset < piece.end:
                    continue
                if share is None:
                    return AdmittedPiece(each.offset + 1, each.size)
                if size + each.size > share:
                    return AdmittedPiece(each.offset, size)
                size += each.size
        return AdmittedPiece(piece.end, size)

    def held(self, topic: Topic, reader: str) -> Ends:
        return {}

    def hold(self, topic: Topic, reader: str, ends: Ends) -> None:
        """Do nothing: a Kafka cluster has its own retention."""

    def _offsets_at(self, topic: Topic, timestamp_ms: int) -> Ends:
        return self._reader.offsets_at(timestamp_ms)

    def close(self) -> None:
        self._reader.close()
