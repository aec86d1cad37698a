"""Fetching from a Kafka cluster: a task reads from the leaders; batches become Arrow as those of files do."""

from collections.abc import Iterator
from itertools import chain, groupby

import pyarrow as pa

from penstock.log.kafka_form import UNPACKED_BYTES
from penstock.log.kafka_settings import KafkaSettings

from ...offsets import Piece
from ..kafka_topic import KafkaTopicReader
from .batch_columns import BatchChunk, checked_columns, grouped_batches
from .contract import Fetcher, Request


class KafkaFetcher(Fetcher):
    """One topic of one cluster."""

    def __init__(self, url: str, topic: str, settings: KafkaSettings | None = None) -> None:
        self._reader = KafkaTopicReader(url, topic, settings)
        self._lost: list[Piece] = []

    def batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        return chain.from_iterable(self._piece(request, piece) for piece in request.pieces)

    def lost(self, request: Request) -> list[Piece]:
        """Return the pieces found missing at the fetch; compacted topics lack rows without any loss."""
        return self._lost

    def close(self) -> None:
        self._reader.close()

    def _piece(self, request: Request, piece: Piece) -> Iterator[pa.RecordBatch]:
        wants = request.wants("headers") or request.wants("type")
        found = self._reader.batches(*piece, removed=self._lost.append)
        for low, batches in groupby(found, lambda each: each.low):  # records before it in a batch are removed
            for group in grouped_batches((each.header, each.data) for each in batches):
                chunk = BatchChunk(group, request.topic_id, piece.partition, UNPACKED_BYTES)
                yield from checked_columns(chunk, low, piece.end, f"partition {piece.partition}", wants_headers=wants)
