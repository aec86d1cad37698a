"""What it costs to create a Record."""

from collections.abc import Callable

from bench import Case, Ratio, Run, Size, Target, Variant
from penstock.model.record import RawHeaders, Record


class Plain:
    """The yardstick: the same fields in slots, filled by a Python `__init__`, and nothing more."""

    __slots__ = (
        "attempt",
        "data",
        "fence",
        "id",
        "key",
        "offset",
        "partition",
        "raw_headers",
        "redelivered",
        "timestamp_ms",
        "topic",
        "type",
    )

    def __init__(
        self,
        id: str,
        key: str | None,
        data: bytes | None,
        type: str,
        raw_headers: RawHeaders,
        timestamp_ms: int,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        attempt: int = 1,
        redelivered: bool = False,
        fence: int | None = None,
    ) -> None:
        self.id = id
        self.key = key
        self.data = data
        self.type = type
        self.raw_headers = raw_headers
        self.timestamp_ms = timestamp_ms
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.attempt = attempt
        self.redelivered = redelivered
        self.fence = fence


def creating(kind: Callable[..., object]) -> Callable[[Run], None]:
    """Return a body that makes records of a kind as the log's reader does: by position, place included."""

    def create(run: Run) -> None:
        data, headers = b'{"total": 12}', (("content-type", b"application/json"),)
        for offset in range(run.records):
            kind("0199-id", "o-1", data, "order.placed", headers, 1_700_000_000_000, "orders", 3, offset)

    return create


CASE = Case(
    name="record",
    about="creating a Record beside a plain slotted object",
    records=Size(quick=500_000, full=2_000_000),
    variants=[Variant("Record", creating(Record)), Variant("plain slotted object", creating(Plain))],
    targets=[Target("create_cpu", Ratio("Record", "plain slotted object", "cpu_us"), at_most=3)],
)
