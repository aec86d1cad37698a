"""A console as `penstock console` serves it, which also says how many statements it has asked.

python -m bench.consoles.program URL PORT
"""

import sys
from signal import SIGTERM, sigwait
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from penstock.console.site import ConsoleSite
from penstock.database.database import Transaction
from penstock.gateway.listener import HttpListener
from penstock.gateway.lock import Locked
from penstock.gateway.rest.api import RestApi
from penstock.log.store import open_store

STATEMENTS = "/statements"


def main(url: str, port: int) -> None:
    """Serve until it is told to end."""
    asked = 0
    execute = Transaction.execute

    def counted(self: Any, room: str, name: str, params: Any, /) -> Any:
        nonlocal asked
        asked += 1
        return execute(self, room, name, params)

    Transaction.execute = counted  # type: ignore[method-assign, assignment]
    api = RestApi(open_store(url))

    async def statements(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(asked))

    app = Starlette(routes=[Route(STATEMENTS, statements), *ConsoleSite(api).routes()])
    listener = HttpListener(Locked(app, api.access), "127.0.0.1", port)
    listener.open()
    listener.start()
    sigwait([SIGTERM])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
