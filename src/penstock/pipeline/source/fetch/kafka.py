"""Fetching from a Kafka cluster: a task reads from the leaders; batches become Arrow as those of files do."""

from collections.abc import Iterator
from itertools import chain, groupby

import pyarrow as pa

from penstock.errors import Damaged, InvalidBatch
from penstock.log.kafka_form import UNPACKED_BYTES
from penstock.log.kafka_settings import KafkaSettings

from ...offsets import Piece
from ..kafka_topic import KafkaTopicReader
from .batch_columns import BatchChunk, HeldBatch, columns, grouped
from .contract import Request


class KafkaFetcher:
    """One topic of one cluster."""

    def __init__(self, url: str, topic: str, settings: KafkaSettings | None = None) -> None:
        self._reader = KafkaTopicReader(url, topic, settings)
        self._lost: list[Piece] = []

    def batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the requested records."""
        return chain.from_iterable(self._piece(request, piece) for piece in request.pieces)

    def lost(self, request: Request) -> list[Piece]:
        """Return the pieces found missing at the fetch; compacted topics lack rows without any loss."""
        return self._lost

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()

    def _piece(self, request: Request, piece: Piece) -> Iterator[pa.RecordBatch]:
        wants = request.wants("headers") or request.wants("type")
        found = self._reader.batches(*piece, removed=self._lost.append)
        for low, batches in groupby(found, lambda each: each.low):  # records before it in a batch are removed
            for group in grouped((each.header, each.data) for each in batches):
                yield from _columns(group, request.topic_id, piece._replace(start=low), wants)


def _columns(group: list[HeldBatch], topic_id: int, piece: Piece, wants_headers: bool) -> Iterator[pa.RecordBatch]:
    chunk = BatchChunk(group, topic_id, piece.partition, UNPACKED_BYTES)
    try:
        found = columns(chunk, piece.start, piece.end, wants_headers=wants_headers)
    except InvalidBatch as exc:
        raise Damaged(f"partition {piece.partition}", 0, group[0][0].base_offset, exc.why) from exc
    if found.num_rows:
        yield found
