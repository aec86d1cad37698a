"""The years that readers of tables support: 1 to 9999. Times outside become the first or the last one.

Python supports no others, nor do the text forms of times in Delta's log and partitions. A Kafka client may
set any 64 bits as a record's time, and one that counts in microseconds sets the year 58692.
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
    """Return a time since 1970, limited to the first and the last supported one."""
    return min(max(milliseconds, _FIRST_MS), _LAST_MS)


def all_known_ms(milliseconds: pa.Array) -> pa.Array:
    """Return times since 1970, each limited to the supported ones."""
    bounds = pc.min_max(milliseconds)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if least is None or _FIRST_MS <= least <= most <= _LAST_MS:
        return milliseconds
    return pc.min_element_wise(
        pc.max_element_wise(milliseconds, _FIRST_MS, skip_nulls=False), _LAST_MS, skip_nulls=False
    )
