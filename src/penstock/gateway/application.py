"""The ASGI application: three paths, each a few lines over a value of this room; and REST on demand.

Every handler is async and waits for nothing but a store probe, for a bounded time: it never blocks the event
loop, which may belong to the caller's own web application.
"""

from asyncio import gather
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.access.resource import CLUSTER, AccessRight
from penstock.app import Outbox
from penstock.errors import InvalidInput, MissingExtra, NotAllowed
from penstock.worker.calling.runner import ProcessingSettings

from .exposition import CONTENT_TYPE, scrape
from .lock import may_look, sees_reasons
from .problem import PROBLEM, problem
from .readiness import OutboxProbe

if TYPE_CHECKING:
    from .rest.api import RestApi

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import BaseRoute, Route
except ImportError as exc:
    raise MissingExtra("penstock.gateway", "http") from exc

_NEVER_KEPT = {"cache-control": "no-store"}


def application(
    outboxes: Sequence[Outbox], *, worker: bool, api: "RestApi | None" = None, more: Sequence[BaseRoute] = ()
) -> Starlette:
    """Return the application for some outboxes, with the REST door of a store. Raises InvalidInput.

    `more`: routes of other rooms, served beside these.
    """
    if not outboxes:
        raise InvalidInput("gateway.app() needs an outbox: gateway.app(outbox)")
    needs_worker = worker and ProcessingSettings.load().enabled
    probes = [OutboxProbe(each, needs_worker=needs_worker) for each in outboxes]

    async def metrics(request: Request) -> Response:
        if not may_look(request):
            body = problem(403, NotAllowed(request.state.principal.name, AccessRight.DESCRIBE, str(CLUSTER)))
            return Response(body, 403, headers=_NEVER_KEPT, media_type=PROBLEM)
        return Response(scrape(outboxes), headers=_NEVER_KEPT, media_type=CONTENT_TYPE)

    async def healthz(request: Request) -> Response:
        return JSONResponse({"alive": True}, headers=_NEVER_KEPT)

    async def readyz(request: Request) -> Response:
        found = [each for answers in await gather(*(probe.ask() for probe in probes)) for each in answers]
        body: dict[str, Any] = {"ready": not found}
        if sees_reasons(request):  # a probe without a secret gets yes or no
            body["reasons"] = [each._asdict() for each in found]
        return JSONResponse(body, 503 if found else 200, headers=_NEVER_KEPT)

    routes: list[BaseRoute] = [*more, Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)]
    if api is None:
        made = Starlette(routes=routes)
    else:
        from .rest.problems import on_http

        made = Starlette(routes=[*api.routes(), *routes], exception_handlers={HTTPException: on_http})
    made.router.redirect_slashes = False  # Starlette would redirect to any host in the Host header
    return made
