"""One message at a time, acknowledged by all, over a bare socket: what a request costs and how long it takes.

The first three do not sync, as NATS and Apache Kafka come; the durable ones stand beside them for reading.
"""

from bench import Case, Extra, Ratio, Run, Size, Target, Variant
from bench.brokers import NATS, kafka, nats, penstock
from bench.brokers.single import Single, alone, kafka_single, nats_single, quantile


def one_by_one(run: Run, at: Single) -> Extra:
    """Send each when the one before is acknowledged."""
    took = at.client.one_by_one(at.message, run.records)
    return {"p50_us": quantile(took, 0.5) * 1e6, "p99_us": quantile(took, 0.99) * 1e6}


_KB, _SOME, _SYNCED = 1_000, Size(quick=3_000, full=20_000), Size(quick=500, full=3_000)

CASE = Case(
    name="broker_single",
    about="one message of 1 KB at a time, acks=all: latency and server CPU beside Apache Kafka's and NATS'",
    rounds=Size(quick=3, full=5),
    variants=[
        Variant("Penstock", one_by_one, setup=alone(penstock("os"), kafka_single, _KB), records=_SOME),
        Variant("Kafka", one_by_one, setup=alone(kafka(), kafka_single, _KB, 2_000), records=_SOME),
        Variant("NATS", one_by_one, setup=alone(nats(), nats_single, _KB), records=_SOME, peer=NATS),
        Variant("Penstock, durable", one_by_one, setup=alone(penstock("fsync"), kafka_single, _KB), records=_SYNCED),
        Variant("NATS, durable", one_by_one, setup=alone(nats("always"), nats_single, _KB), records=_SYNCED, peer=NATS),
    ],
    targets=[
        Target(
            "p50_over_nats",
            Ratio("Penstock", "NATS", "p50_us"),
            at_most=1.5,
            cause="a request takes 33 us of Python and 25 us of socket; NATS answers within 30 us",
        ),
        Target(
            "cpu_over_kafka",
            Ratio("Penstock", "Kafka", "server_cpu_us"),
            at_most=0.5,
            cause="a request takes 33 us of Python and 25 us of socket; Kafka, compiled, takes 60 us",
        ),
    ],
)
