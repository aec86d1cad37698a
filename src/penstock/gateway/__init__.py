"""What operators see over HTTP: a process's series, liveness and readiness.

`app` gives an ASGI application to mount in a web application; `penstock worker --http` serves it beside a
worker (`listener.py`). Both need the extra `http`; the rest of Penstock does not.
"""

from typing import TYPE_CHECKING

from penstock.app import Outbox

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["app"]


def app(*outboxes: Outbox, worker: bool = True) -> "Starlette":
    """Return an ASGI application with `/metrics`, `/healthz` and `/readyz` for outboxes of this process.

    `worker`: the process is ready only while a worker of each of them runs; with `processing.enabled = false`
    none is needed. Raises MissingExtra, InvalidInput without an outbox.
    """
    from .application import application

    return application(outboxes, worker=worker)
