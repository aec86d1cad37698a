"""A store that is served to Kafka clients: in this process, or in one of its own that can be killed."""

import os
import signal
import subprocess
from typing import Any, Self

from penstock.broker.broker import Broker
from penstock.broker.settings import BrokerSettings
from penstock.clock import SYSTEM, Clock
from penstock.database.migrations import migrate
from penstock.log.store import Store, open_batches, open_store
from penstock.model.partition import KAFKA
from penstock.operate.ports import KafkaAdministration
from tests.unit.cli.program import penstock

_START_SECONDS = 60


class Served:
    """A broker in this process, between `with` and its end."""

    def __init__(self, url: str, *, clock: Clock = SYSTEM, port: int = 0, **settings: Any) -> None:
        self.url = url
        self.store: Store = open_store(url)
        migrate(self.store.database)
        loaded = BrokerSettings.load(**settings)
        self.batches = open_batches(self.store, clock, batch_bytes=loaded.batch_bytes)
        self.broker = Broker(
            self.store, self.batches, KafkaAdministration(self.store), port=port, settings=loaded, clock=clock
        )

    @property
    def address(self) -> str:
        """Where clients connect."""
        return self.broker.address

    @property
    def port(self) -> int:
        """The port there."""
        return int(self.address.rpartition(":")[2])

    def topic(self, name: str, partitions: int = 1, partitioner: str = KAFKA) -> str:
        """Make a topic, and let the broker know."""
        self.store.log.create_topic(name, partitions=partitions, partitioner=partitioner)
        self.broker.topics.refresh()
        return name

    def __enter__(self) -> Self:
        self.broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()
        self.batches.close()
        self.store.close()


class ServedProcess:
    """`penstock serve` as a process."""

    def __init__(self, url: str, *, port: int = 0, env: dict[str, str] | None = None) -> None:
        command = penstock("serve", "--url", url)
        self.process = subprocess.Popen(
            [*command, "--kafka", f"127.0.0.1:{port}", "--log-level", "warning"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("kafka listening on "), line
        self.address = line.removeprefix("kafka listening on ").strip()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.address.rpartition(":")[2])

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self._ended()

    def pause(self) -> None:
        """Stop it, as a machine that hangs."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """End it as a service is ended; return its exit code."""
        self.process.terminate()
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(_START_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self._ended()
