"""A real Apache Kafka: one node, on this machine only, from the jars that Maven has."""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

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
_LOCKED = """listeners={open},CONTROLLER://127.0.0.1:{controller},SASL_SSL://127.0.0.1:{locked}
advertised.listeners={open},SASL_SSL://127.0.0.1:{locked}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config={plain} required user_{name}="{password}";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram} required;
connections.max.reauth.ms=60000
log.cleaner.backoff.ms=100
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
"""
_MODULES = {
    "plain": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "scram": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class LockedListener(NamedTuple):
    """A second port with TLS, where somebody has a password."""

    name: str
    password: str
    certificate: Path
    key: Path


class ApacheKafka:
    """A broker of the Apache project in a process of its own, between `start` and `stop`."""

    def __init__(self, folder: Path, locked: LockedListener | None = None) -> None:
        self.folder, self._jars, self._locked = folder, kafka_jars(), locked
        self._port, controller, self._locked_port = _free_ports()
        self._properties = folder / "server.properties"
        ports = {"port": self._port, "controller": controller, "locked": self._locked_port}
        said = _PROPERTIES.format(**ports, data=folder / "data")
        if locked is not None:
            keystore = folder / "server.pem"
            keystore.write_bytes(locked.key.read_bytes() + locked.certificate.read_bytes())
            login = {"name": locked.name, "password": locked.password, "keystore": keystore, **_MODULES}
            said += _LOCKED.format(**ports, **login, open=f"PLAINTEXT://{self.address}")
        self._properties.write_text(said)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self._port}"

    @property
    def locked_address(self) -> str:
        """Where clients connect that have a password."""
        return f"127.0.0.1:{self._locked_port}"

    def start(self) -> None:
        """Format the folder and start; returns when it accepts connections."""
        java = ["java", "-Xmx512m", "-cp", f"{self._jars}/*"]
        tool = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._properties)]
        if self._locked is not None:
            login = f"[name={self._locked.name},password={self._locked.password}]"
            tool += ["--add-scram", f"SCRAM-SHA-256={login}", "--add-scram", f"SCRAM-SHA-512={login}"]
        subprocess.run(tool, check=True, capture_output=True, timeout=_START_SECONDS)
        self._log = (self.folder / "out.log").open("wb")
        self._process = subprocess.Popen(
            [*java, "kafka.Kafka", str(self._properties)], stdout=self._log, stderr=subprocess.STDOUT
        )
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "out.log").read_text()[-2000:]
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


def _free_ports() -> tuple[int, int, int]:
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for each in (one, two, three):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


def only_in_the_long_set() -> None:
    """Skip where a real Kafka would take too long."""
    if level_from_environment() != "long":
        pytest.skip("a real Apache Kafka is asked in the long set (./scripts/test --long)")


@pytest.fixture
def apache_kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    """Give a real Kafka; in the long set only: it takes half a minute."""
    only_in_the_long_set()
    broker = ApacheKafka(tmp_path)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
