"""Messages that the disk has before they are acknowledged: in bulk, 64 under way, and 1 000 a second.

Apache Kafka with `log.flush.interval.messages=1`, NATS with `sync_interval: always`.
"""

from collections.abc import Callable
from typing import Any

from bench import Case, Extra, Ratio, Run, Size, Target, Value, Variant
from bench.brokers import NATS, KafkaLoad, NatsLoad, kafka, nats, penstock
from bench.brokers.pipelining import in_flight, paced
from bench.brokers.single import Single, alone, kafka_single, nats_single, quantile
from bench.cases.broker_produce import empty, produce

_KB, _IN_FLIGHT, _RATE = 1_000, 64, 1_000
_SERVERS: dict[str, tuple[Any, Any, Any]] = {
    "Penstock": (penstock("fsync"), KafkaLoad, kafka_single),
    "Kafka": (kafka(log__flush__interval__messages="1"), KafkaLoad, kafka_single),
    "NATS": (nats("always"), NatsLoad, nats_single),
}
_BULK = {
    "Penstock": Size(quick=100_000, full=500_000),
    "Kafka": Size(quick=100_000, full=500_000),
    "NATS": Size(quick=5_000, full=20_000),
}
_UNBATCHED = {
    "Penstock": Size(quick=5_000, full=50_000),
    "Kafka": Size(quick=500, full=2_000),
    "NATS": Size(quick=1_000, full=5_000),
}


def unbatched(run: Run, at: Single) -> None:
    """Send each alone, 64 under way on one connection."""
    in_flight(at.client, at.message, run.records, _IN_FLIGHT)


def sustained(run: Run, at: Single) -> Extra:
    """Send 1 000 a second, each alone, whatever became of those before."""
    took = paced(at.client, at.message, _RATE, run.records / _RATE)
    count = max(1, len(took))
    late = {"p50_ms": quantile(took, 0.5) * 1e3, "p99_ms": quantile(took, 0.99) * 1e3} if took else {}
    return {"records": count, "acknowledged_percent": 100 * len(took) / run.records, **late}


def _variants(
    label: str, body: Callable[..., Any], setup: Callable[[str], Any], sizes: dict[str, Size]
) -> list[Variant[Any]]:
    return [
        Variant(f"{who}, {label}", body, setup=setup(who), records=sizes[who], peer=NATS if who == "NATS" else None)
        for who in _SERVERS
    ]


def _single(who: str) -> Any:
    server, _, opener = _SERVERS[who]
    return alone(server, opener, _KB, 50)


CASE = Case(
    name="broker_durable",
    about="produce with fsync before the acknowledgement, 1 KB: bulk, 64 under way, 1 000 a second",
    rounds=Size(quick=1, full=3),
    variants=[
        *_variants("bulk", produce(_KB), lambda who: empty(*_SERVERS[who][:2], _KB), _BULK),
        *_variants("64 under way", unbatched, _single, _UNBATCHED),
        *_variants("1000/s", sustained, _single, dict.fromkeys(_SERVERS, Size(quick=3 * _RATE, full=30 * _RATE))),
    ],
    targets=[
        Target("bulk_over_nats", Ratio("Penstock, bulk", "NATS, bulk", "records_per_second"), at_least=10),
        Target("bulk_over_kafka", Ratio("Penstock, bulk", "Kafka, bulk", "records_per_second"), at_least=1),
        Target(
            "64_over_nats",
            Ratio("Penstock, 64 under way", "NATS, 64 under way", "records_per_second"),
            at_least=5,
            cause="a request takes 60 us of CPU with its client; NATS syncs each message, in 0.2 ms here",
        ),
        Target(
            "64_over_kafka", Ratio("Penstock, 64 under way", "Kafka, 64 under way", "records_per_second"), at_least=5
        ),
        Target("sustained", Value("Penstock, 1000/s", "acknowledged_percent"), at_least=99.9),
    ],
)
