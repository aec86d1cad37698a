"""The years that readers of tables know: 1 to 9999. Times before and after are told as the first or the last.

Python has no others, nor have the texts in which Delta's log and its partitions say times. A Kafka client may
give a record any 64 bits as its time, and one that counts microseconds gives the year 58692.
"""

from datetime import UTC, datetime, timedelta

from penstock.errors import MissingExtra

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MILLISECOND
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MILLISECOND


def known_ms(milliseconds: int) -> int:
    """Return a time since 1970, or the first or last that there is."""
    return min(max(milliseconds, _FIRST_MS), _LAST_MS)


def all_known_ms(milliseconds: pa.Array) -> pa.Array:
    """Return times since 1970, each of them known."""
    bounds = pc.min_max(milliseconds)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if least is None or _FIRST_MS <= least <= most <= _LAST_MS:
        return milliseconds
    return pc.min_element_wise(
        pc.max_element_wise(milliseconds, _FIRST_MS, skip_nulls=False), _LAST_MS, skip_nulls=False
    )
