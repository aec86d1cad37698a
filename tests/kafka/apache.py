"""A real Apache Kafka: one node, on this machine only, from the jars that Maven has."""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.kafka.maven import kafka_jars
from tests.services.budget import level_from_environment

_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
_START_SECONDS = 120
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
"""


class ApacheKafka:
    """A broker of the Apache project in a process of its own, between `start` and `stop`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._jars = folder, kafka_jars()
        self._port, controller = _free_ports()
        self._properties = folder / "server.properties"
        said = _PROPERTIES.format(port=self._port, controller=controller, data=folder / "data")
        self._properties.write_text(said)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Format the folder and start; returns when it accepts connections."""
        java = ["java", "-Xmx512m", "-cp", f"{self._jars}/*"]
        tool = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._properties)]
        subprocess.run(tool, check=True, capture_output=True, timeout=_START_SECONDS)
        self._log = (self._folder / "out.log").open("wb")
        self._process = subprocess.Popen(
            [*java, "kafka.Kafka", str(self._properties)], stdout=self._log, stderr=subprocess.STDOUT
        )
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "out.log").read_text()[-2000:]
            assert time.monotonic() < end, "Apache Kafka does not answer"

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_START_SECONDS)
        if self._log is not None:
            self._log.close()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return True
        except OSError:
            time.sleep(0.1)  # between two tries, not instead of one
            return False


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@pytest.fixture
def apache_kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    """Give a real Kafka; in the long set only: it takes half a minute."""
    if level_from_environment() != "long":
        pytest.skip("a real Apache Kafka is asked in the long set (./scripts/test --long)")
    broker = ApacheKafka(tmp_path)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
