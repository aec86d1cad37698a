"""The processes of the demo shop: workers, and a broker for Kafka clients."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from .shop import SHOP_FILE

_PROGRAM = "import sys; from penstock.cli import main; main(sys.argv[1:])"
_OUTBOX = "penstock.testing.shop:outbox"
# Heartbeats and leases as in a test, so that the demo takes seconds.
_HASTE = {
    "PENSTOCK_CLUSTER_HEARTBEAT_INTERVAL": "0.3",
    "PENSTOCK_CLUSTER_LEASE_TTL": "3",
    "PENSTOCK_CLUSTER_GATHER_JOINS": "0.2",
    "PENSTOCK_CLUSTER_REBALANCE_INTERVAL": "1",
}


class ShopProcess:
    """A command in a separate process, on the file of a shop."""

    def __init__(self, path: Path, *command: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and a program of ours
            [sys.executable, "-c", _PROGRAM, *command, "--log-level", "error"],
            env=os.environ | _HASTE | {SHOP_FILE: str(path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def said(self) -> str:
        """Wait for its next output line and return it; empty once it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> int:
        """Ask it to finish and exit; return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


class ShopWorker(ShopProcess):
    """A worker of the shop: `penstock worker penstock.testing.shop:outbox`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "worker", _OUTBOX)


class ShopBroker(ShopProcess):
    """A broker of the shop's topics, on a free port: `penstock serve --kafka 127.0.0.1:0`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "serve", "--url", f"sqlite:///{path}", "--kafka", "127.0.0.1:0")
        self.address = self.said().removeprefix("kafka listening on ")
