"""A store that is served over HTTP: in this process, or in one of its own that can be killed."""

from __future__ import annotations

import subprocess
from typing import Any, Self

import httpx2

from penstock import Outbox
from penstock.access.access import Access
from penstock.clock import SYSTEM, Clock
from penstock.database.migrations import migrate
from penstock.gateway.application import application
from penstock.gateway.listener import HttpListener
from penstock.gateway.lock import Locked
from penstock.gateway.rest.api import RestApi
from penstock.gateway.settings import GatewaySettings
from penstock.log.store import Store, open_store
from tests.unit.cli.program import penstock

ANSWER_SECONDS = 60.0  # generous: the machine may be busy
JSON = {"content-type": "application/json"}


class ServedRest:
    """A REST door in this process, between `with` and its end; `client` is connected to it."""

    def __init__(self, url: str, *, access: Access | None = None, clock: Clock = SYSTEM, **settings: Any) -> None:
        self.store: Store = open_store(url)
        migrate(self.store.database)
        self.api = RestApi(self.store, access=access, settings=GatewaySettings.load(**settings), clock=clock)
        app = Locked(application([Outbox(self.store)], worker=False, api=self.api), self.api.access)
        self.listener = HttpListener(app, "127.0.0.1", 0, connections=self.api.settings.connections)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.listener.address.rpartition(":")[2])

    def __enter__(self) -> Self:
        self.listener.start()
        self.client = client_of(self.listener.address)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.api.give_back()
        self.listener.stop()
        self.api.close()
        self.store.close()


class ServedGateway:
    """`penstock serve --http` as a process."""

    def __init__(self, url: str, *options: str, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [*penstock("serve", "--url", url), "--http", f"127.0.0.1:{port}", "--log-level", "warning", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("http listening on "), line
        self.address = line.removeprefix("http listening on ").strip()
        self.client = client_of(self.address)

    def kill(self) -> None:
        """End it without a word."""
        self.client.close()
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def client_of(address: str) -> httpx2.Client:
    """Return a client that keeps its connection."""
    return httpx2.Client(base_url=f"http://{address}/v1", timeout=ANSWER_SECONDS)


def event(id: str, key: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a CloudEvent in its JSON form."""
    own = {"specversion": "1.0", "id": id, "type": "order.placed", "source": "/shop", "data": {"n": id}}
    return {**own, **({} if key is None else {"partitionkey": key}), **more}
