"""Fetching from a log in files: a task reads the segments itself, as far as their writer has published.

The directory must be visible to the tasks, as on one machine or a shared disk. No table is read: the
directory holds the log's identity. Memory is bounded by some batches, a few mebibytes.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from penstock.clock import SYSTEM
from penstock.errors import StoreMissing
from penstock.log.files.directory import LogDirectory, TopicFiles
from penstock.log.files.disk import Disk
from penstock.log.files.partition_view import PartitionView
from penstock.log.files.settings import FilesSettings
from penstock.log.files.small_files import read_identity
from penstock.log.topics import topic_uuid
from penstock.wire.kafka.record_batch import BatchHeader

from ...offsets import Piece
from .batch_columns import BatchChunk, checked_columns, grouped_batches
from .contract import Fetcher, Request


class FilesFetcher(Fetcher):
    """One directory, opened to read."""

    def __init__(self, path: str) -> None:
        identity = read_identity(Disk(), Path(path))
        if identity is None:
            raise StoreMissing(path)
        self._log_id = identity.log_id
        self._directory = LogDirectory(Path(path), FilesSettings.load(), SYSTEM, Disk())

    def batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        topic = self._topic(request.topic_id)
        for piece in request.pieces:
            yield from self._piece(topic, request, piece)

    def starts(self, topic_id: int) -> dict[int, int]:
        return {number: head.start for number, head in self._topic(topic_id).heads.all().items()}

    def close(self) -> None:
        self._directory.files.close()

    def _topic(self, topic_id: int) -> TopicFiles:
        return self._directory.topic(topic_id, topic_uuid(self._log_id, topic_id))

    def _piece(self, topic: TopicFiles, request: Request, piece: Piece) -> Iterator[pa.RecordBatch]:
        view = self._directory.view(topic, piece.partition, topic.heads.get(piece.partition))
        wants = request.wants("headers") or request.wants("type")
        low, high = max(piece.start, view.start), min(piece.end, view.stable)
        where = f"partition {piece.partition} in {topic.path.name}"
        for batches in grouped_batches(_counting(view, low, high)):
            chunk = BatchChunk(batches, request.topic_id, piece.partition)
            yield from checked_columns(chunk, low, high, where, wants_headers=wants)


def _counting(view: PartitionView, low: int, high: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    producers = view.producers
    for header, batch in view.batches(low, high):
        if header.record_count and not header.is_control and not producers.is_aborted(header):
            yield header, batch
