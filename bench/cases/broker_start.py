"""From the start of a broker's process to its first answer: empty, and after a kill with a lot in the log."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import Case, NotMeasured, Ratio, Run, Size, Target, Value, Variant
from bench.brokers import KafkaLoad
from bench.brokers.contenders import kafka_process, penstock_process
from bench.brokers.kafka_socket import KafkaSocket, is_kafka
from bench.brokers.server import Server, ServerProcess
from bench.segments import folder

_RECORD_BYTES = 10_000
_TOPIC = "kept"


@dataclass
class Place:
    """A folder that a broker is started on, and how much it has to show before it counts as started."""

    path: Path
    start: Callable[[Path], ServerProcess]
    records: int
    process: ServerProcess | None = None


def penstock_on(path: Path) -> ServerProcess:
    """Start ours as it comes."""
    return penstock_process(path)


def kafka_on(path: Path) -> ServerProcess:
    """Start Apache Kafka as it comes."""
    return kafka_process(path)


def stopped(
    start: Callable[[Path], ServerProcess], megabytes: Size | None = None
) -> Callable[[Run], AbstractContextManager[Place]]:
    """Return the setup: a folder where a broker has been once; filled and killed, or ended in good order."""

    @contextmanager
    def setup(run: Run) -> Iterator[Place]:
        with folder(run) as path:
            first = start(path)
            first.wait(is_kafka)
            records = 0
            if megabytes is None:
                first.stop()
            else:
                records = run.size(quick=megabytes.quick, full=megabytes.full) * 1_000_000 // _RECORD_BYTES
                load = KafkaLoad(first.server)
                load.create(_TOPIC)
                load.produce(_TOPIC, _RECORD_BYTES, records)
                first.kill()
            place = Place(path, start, records)
            try:
                yield place
            finally:
                if place.process is not None:
                    place.process.stop()

    return setup


def start(run: Run, place: Place) -> None:
    """Start it, and wait until it answers with all that it had."""
    place.process = place.start(place.path)
    place.process.wait(lambda server: is_kafka(server) and _has_all(server, place.records))


def _has_all(server: Server, records: int) -> bool:
    if not records:
        return True
    with KafkaSocket(server) as client:
        end = client.end(_TOPIC)
    if end < records:
        raise NotMeasured(f"{end} of {records} acknowledged messages are there after a kill")
    return True


_LOG = Size(quick=200, full=1_000)

CASE = Case(
    name="broker_start",
    about="start of a broker's process to its first answer; again after kill -9 with 1 GB (quick: 200 MB)",
    rounds=Size(quick=1, full=3),
    warm_up=False,
    variants=[
        Variant("Penstock, empty", start, setup=stopped(penstock_on)),
        Variant("Kafka, empty", start, setup=stopped(kafka_on)),
        Variant("Penstock, killed", start, setup=stopped(penstock_on, _LOG)),
        Variant("Kafka, killed", start, setup=stopped(kafka_on, _LOG)),
    ],
    targets=[
        Target("start", Value("Penstock, empty", "wall_seconds"), at_most=1),
        Target("restart", Ratio("Penstock, killed", "Kafka, killed", "wall_seconds"), at_most=1),
    ],
)
