"""What is measured: `penstock serve` with every door on a log in files, and the bare programs beside it."""

import hashlib
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.brokers.server import Server, ServerOpener, ServerProcess, free_port, running
from bench.run import Run
from bench.segments import folder
from penstock.access.dev_certificates import DevCertificates

PASSWORD = hashlib.sha256(b"bench").hexdigest()
TOPIC = "orders"
_PENSTOCK = [sys.executable, "-c", "from penstock.cli import main; main()", "serve", "--log-level", "warning"]


@dataclass(frozen=True)
class Doors:
    """A gateway with every door; each is a server of the same process."""

    kafka: Server
    http: Server
    grpc: Server
    tinyq: Server
    ca: Path | None = None


@cache
def penstock(durability: str, *, tls: bool = False) -> Callable[[Run], AbstractContextManager[Doors]]:
    """Return the opener of a gateway on files."""

    @contextmanager
    def opened(run: Run) -> Iterator[Doors]:
        with folder(run) as path:
            ports = {each: free_port() for each in ("kafka", "http", "grpc", "tinyq")}
            command = [*_PENSTOCK, "--url", f"file://{path}/data"]
            for door, port in ports.items():
                command += [f"--{door}", f"127.0.0.1:{port}"]
            if tls:
                DevCertificates(path / "tls").make([])
                command += ["--tls-cert", f"{path}/tls/server.pem", "--tls-key", f"{path}/tls/server.key"]
            env = {"PENSTOCK_FILES_DURABILITY": durability, "PENSTOCK_TINYQ_PASSWORD_SHA256": PASSWORD}
            started = ServerProcess(command, path / "gateway.txt", f"127.0.0.1:{ports['tinyq']}", env)
            with running(started, is_open) as server:
                at = {each: Server(f"127.0.0.1:{port}", server.pid) for each, port in ports.items()}
                yield Doors(**at, ca=path / "tls" / "ca.pem" if tls else None)

    return opened


@cache
def bare(module: str) -> ServerOpener:
    """Return the opener of a program of this folder."""

    @contextmanager
    def opened(run: Run) -> Iterator[Server]:
        with folder(run) as path:
            port = free_port()
            command = [sys.executable, "-m", f"bench.doors.{module}", str(port)]
            started = ServerProcess(command, path / f"{module}.txt", f"127.0.0.1:{port}")
            with running(started, is_open) as server:
                yield server

    return opened


def is_open(server: Server) -> bool:
    """Return whether somebody listens there."""
    with socket.create_connection(server.place, timeout=10):
        return True
