"""Records for tests: a test gives the fields that matter and leaves the rest to defaults."""

from itertools import count
from typing import Any

from penstock.model.record import Record

_numbers = count()


def a_record(key: str | None = "o-1", data: bytes | None = b"{}", **others: Any) -> Record:
    """Return a record with a unique id."""
    given: dict[str, Any] = {
        "id": f"r-{next(_numbers)}",
        "type": "order.placed",
        "raw_headers": (),
        "timestamp_ms": 1_000,
    }
    return Record(key=key, data=data, **given | others)


def some_records(many: int, **others: Any) -> list[Record]:
    """Return that many records."""
    return [a_record(**others) for _ in range(many)]
