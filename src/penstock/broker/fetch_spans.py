"""The spans of a fetch: the trace of a record names the Kafka client that received it.

Batches pass through the broker unparsed. Only while spans are recorded does it parse part of an answer: its
first records, within a bound, because this runs in the loop's thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from penstock import tracing
from penstock.errors import InvalidBatch
from penstock.model.context import context_of
from penstock.wire.kafka.hot import FetchedPart
from penstock.wire.kafka.record_batch import headers_in
from penstock.wire.kafka.records import TooManyBytes, decode_records, unpacked

_RECORDS = 500  # examined in an answer
_UNPACKED_BYTES = 1 << 20  # most bytes unpacked of an answer
_CLIENT_LENGTH = 100


def tell_fetch(
    parts: Sequence[FetchedPart], offsets: Mapping[tuple[str, int], int], *, since_ms: int, client_id: str
) -> None:
    """Add a span to the traces of records sent to a client; `offsets`: where its fetch began."""
    if topics := sorted({part.topic for part in parts if part.pieces}):
        parents = islice(_contexts(parts, offsets), _RECORDS)
        given = {"topic": ",".join(topics), "client": client_id[:_CLIENT_LENGTH]}
        tracing.tell_batch("penstock.fetch", parents, since_ms=since_ms, **given)


def _contexts(parts: Sequence[FetchedPart], offsets: Mapping[tuple[str, int], int]) -> Iterator[Mapping[str, str]]:
    """Yield the contexts of an answer's records, as far as these may be unpacked."""
    left = _UNPACKED_BYTES
    try:
        for part in parts:
            first = offsets.get((part.topic, part.partition), 0)  # a batch may begin before
            for each in part.pieces:
                piece = memoryview(each)
                for position, header in headers_in(piece):
                    if header.is_control or not header.record_count:
                        continue
                    batch = piece[position : position + header.size]
                    plain = unpacked(batch, header, left)
                    left -= 0 if plain is batch else len(plain)
                    for record in decode_records(plain):
                        if record.offset >= first:
                            yield context_of(tuple(record.headers))
    except (InvalidBatch, TooManyBytes):  # the client reports it
        return
