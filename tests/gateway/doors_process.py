"""`penstock serve` as a process, with every door open and its log in a file."""

from __future__ import annotations

import os
import signal
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Self

import psutil

from penstock.database.migrations import migrate
from penstock.log.store import open_store
from penstock.model.partition import KAFKA
from tests.unit.cli.program import penstock

DOORS = ("kafka", "http", "grpc", "tinyq")
SECRET = sha256(b"secret").hexdigest()  # what a client of TinyQ shows
END_SECONDS = 20


class DoorsProcess:
    """Serves a new store with the topics that were asked for, between `with` and its end."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        doors: tuple[str, ...] = DOORS,
        topics: dict[str, int] | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        """`topics`: names, and how many partitions each has."""
        self.url, self._log = f"sqlite:///{folder}/store.db", folder / "serve.log"
        store = open_store(self.url)
        migrate(store.database)
        for name, partitions in (topics or {"orders": 1}).items():
            store.log.create_topic(name, partitions=partitions, partitioner=KAFKA)
        store.close()
        command = penstock("serve", "--url", self.url, *options)
        for each in doors:
            command += [f"--{each}", "127.0.0.1:0"]
        shown = {"PENSTOCK_TINYQ_PASSWORD_SHA256": SECRET, "PYTHONFAULTHANDLER": "1"}
        environ = {**os.environ, **shown, **(env or {})}
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ)
        assert self.process.stdout is not None
        self.addresses: dict[str, str] = {}
        for _ in doors:
            line = self.process.stdout.readline()
            assert " listening on " in line, self.log
            name, _, address = line.partition(" listening on ")
            self.addresses[name] = address.strip()

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text(errors="replace")

    @property
    def complaints(self) -> list[str]:
        """The lines of its log that tell of an error of its own."""
        return [each for each in self.log.splitlines() if " ERROR " in each or "Traceback" in each]

    @property
    def memory(self) -> int:
        """The bytes of memory that it holds."""
        held: int = psutil.Process(self.process.pid).memory_info().rss
        return held

    def place(self, door: str) -> tuple[str, int]:
        """Return the host and the port of a door."""
        host, _, port = self.addresses[door].rpartition(":")
        return host, int(port)

    def stop(self) -> int:
        """End it as a service is ended; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # its threads say where they are
            self.process.wait(END_SECONDS)
            raise AssertionError(f"it does not end: {self.log}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
