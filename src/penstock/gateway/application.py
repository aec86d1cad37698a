"""The ASGI application: three paths, each a few lines over a value of this room.

Every handler is async and waits for nothing but a probe of the store, for a bounded time: it never holds up
the event loop, which may be that of a caller's own web application.
"""

from asyncio import gather
from collections.abc import Sequence

from penstock.app import Outbox
from penstock.errors import InvalidInput, MissingExtra
from penstock.worker.calling.runner import ProcessingSettings

from .exposition import CONTENT_TYPE
from .readiness import OutboxProbe
from .scrape import scrape

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ImportError as exc:
    raise MissingExtra("penstock.gateway", "http") from exc

_NEVER_KEPT = {"cache-control": "no-store"}


def application(outboxes: Sequence[Outbox], *, worker: bool) -> Starlette:
    """Return the application for some outboxes. Raises InvalidInput."""
    if not outboxes:
        raise InvalidInput("gateway.app() needs an outbox: gateway.app(outbox)")
    needs_worker = worker and ProcessingSettings.load().enabled
    probes = [OutboxProbe(each, needs_worker=needs_worker) for each in outboxes]

    async def metrics(request: Request) -> Response:
        return Response(scrape(outboxes), headers=_NEVER_KEPT, media_type=CONTENT_TYPE)

    async def healthz(request: Request) -> Response:
        return JSONResponse({"alive": True}, headers=_NEVER_KEPT)

    async def readyz(request: Request) -> Response:
        found = [each for answers in await gather(*(probe.ask() for probe in probes)) for each in answers]
        body = {"ready": not found, "reasons": [each._asdict() for each in found]}
        return JSONResponse(body, 503 if found else 200, headers=_NEVER_KEPT)

    return Starlette(
        routes=[Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)]
    )
