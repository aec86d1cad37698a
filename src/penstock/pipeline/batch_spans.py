"""The span of a committed batch, added to the traces of its records.

Rows stay in Spark, and the driver sees none of them. So while spans are recorded, it reads the first records
of a batch from the log, where their headers are; otherwise it reads nothing.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from penstock import tracing
from penstock.errors import Error, Undecodable
from penstock.log.contract import OffsetRange
from penstock.log.store import open_store
from penstock.model.context import context_of
from penstock.wire.kafka.headers import decode_headers

from .kafka_address import is_kafka
from .query import Job, Progress

logger = logging.getLogger("penstock.pipeline")

_RECORDS, _BYTES = 500, 1 << 20  # the most read of a batch


def tell_progress(job: Job, reader: str, batch: Progress) -> None:
    """Record in the traces of records that a pipeline, read as `reader`, has them in its tables."""
    if not tracing.is_on() or not batch.pieces or is_kafka(job.url):
        return
    given: dict[str, Any] = {
        "topic": job.topic,
        "reader": reader,
        "batch": batch.batch,
        "records": batch.rows,
    }
    try:
        parents = list(_contexts(job, batch))
    except Error as exc:  # the batch is in the tables all the same
        logger.warning("the span of batch %d of %s is left out: %s", batch.batch, reader, exc)
        return
    tracing.tell_batch("penstock.load", parents, since_ms=batch.began_ms, **given)


def _contexts(job: Job, batch: Progress) -> Iterator[Mapping[str, str]]:
    """Yield the contexts of the first records of a batch."""
    ranges, left = list[OffsetRange](), _RECORDS
    for partition, start, end in batch.pieces:
        ranges.append(OffsetRange(partition, start, min(end, start + left)))
        left -= ranges[-1].high - start
        if not left:
            break
    store = open_store(job.url, job.names)
    try:
        found = store.log.read_ranges(store.log.topic(job.topic), ranges, max_bytes=_BYTES).entries
    finally:
        store.close()
    for each in found:
        try:
            yield context_of(decode_headers(each.headers or b""))
        except Undecodable:  # not published by us
            continue
