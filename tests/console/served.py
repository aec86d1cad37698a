"""A console that is served in this process, and what a browser would do with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import Any, Self

import httpx2

from penstock.access.access import Access
from penstock.clock import SYSTEM, Clock
from penstock.console.site import ConsoleSite
from penstock.database.migrations import migrate
from penstock.gateway.listener import HttpListener
from penstock.gateway.lock import Locked
from penstock.gateway.rest.api import RestApi
from penstock.gateway.settings import GatewaySettings
from penstock.log.store import Store, open_store

TOKEN = "canary-5b1d-token-of-the-console"
ANSWER_SECONDS = 60.0
_MARK = re.compile(r'name="mark" value="([0-9a-f]{64})"')


class ServedConsole:
    """A console between `with` and its end; `client` keeps cookies as a browser does."""

    def __init__(
        self,
        url: str,
        *,
        access: Access | None = None,
        allow_actions: bool = False,
        hosts: Sequence[str] = (),
        clock: Clock = SYSTEM,
    ) -> None:
        self.store: Store = open_store(url)
        migrate(self.store.database)
        self.api = RestApi(self.store, access=access, settings=GatewaySettings.load(threads=4), clock=clock)
        token = TOKEN if allow_actions else None
        site = ConsoleSite(self.api, allow_actions=allow_actions, token=token)
        self.app = site.application()
        self.listener = HttpListener(Locked(self.app, self.api.access), "127.0.0.1", 0, names=hosts)

    @property
    def base(self) -> str:
        """Where its pages are."""
        return f"http://{self.listener.address}/console"

    def __enter__(self) -> Self:
        self.listener.start()
        self.client = self.visitor()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.api.give_back()
        self.listener.stop()
        self.api.close()
        self.store.close()

    def visitor(self, **headers: str) -> httpx2.Client:
        """Return a client of its own, without cookies yet."""
        return httpx2.Client(base_url=f"{self.base}/", timeout=ANSWER_SECONDS, headers=headers)

    def get(self, page: str, **query: Any) -> httpx2.Response:
        """Look at a page."""
        return self.client.get(page, params=query)

    def unlock(self, client: httpx2.Client | None = None) -> None:
        """Show the token."""
        visitor = client or self.client
        sent = {"token": TOKEN, "mark": mark_of(visitor.get("unlock").text)}
        assert visitor.post("unlock", data=sent).status_code == 303

    def act(self, word: str, client: httpx2.Client | None = None, **fields: Any) -> httpx2.Response:
        """Look at what an act would do, then do it."""
        visitor = client or self.client
        asked = visitor.get(f"act/{word}", params=fields)
        if asked.status_code != 200:
            return asked
        return visitor.post(f"act/{word}", data={**fields, "mark": mark_of(asked.text)})


def mark_of(html: str) -> str:
    """Return the mark that the forms of a page hold."""
    found = _MARK.search(html)
    assert found is not None, html
    return found[1]


def text_of(html: str) -> str:
    """Return what a page says, without its markup."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())
