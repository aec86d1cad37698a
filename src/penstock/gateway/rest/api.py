"""The REST door of one store: the table of its operations, served as routes of the gateway's application."""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Unpack

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.access.places import ByteShare, holder_of
from penstock.access.principal import Peer
from penstock.log.store import Store

from ..door import DoorOptions
from ..lock import DOOR
from .administration import GROUPS, TOPICS
from .answers import AnswerShare, response_of
from .call import RestCall, RestDoor
from .dead import DELIVERY
from .leases import LEASES
from .operations import Operation, described
from .problems import SAFE, encoded, problem_of
from .records import RECORDS
from .requests import RestRoute, body_of, check_head, in_path, in_query
from .schedules import PERIODIC, SCHEDULED
from .store import ACCESS, STORE
from .tail import TAIL

_SUBJECTS = (TOPICS, RECORDS, TAIL, GROUPS, LEASES, DELIVERY, SCHEDULED, PERIODIC, STORE, ACCESS)
OPERATIONS: tuple[Operation, ...] = tuple(each for subject in _SUBJECTS for each in subject)
_OFTEN = ("records", "consuming")  # tags of the most frequent operations


class RestApi(RestDoor):
    """Answers calls over HTTP."""

    def __init__(self, store: Store, **options: Unpack[DoorOptions]) -> None:
        super().__init__(store, **options)
        self._description = encoded(described(OPERATIONS))

    def routes(self) -> list[Route]:
        """Return a route for each operation, and one for their description."""
        often_first = sorted(OPERATIONS, key=lambda each: each.tag not in _OFTEN)  # routers try in turn
        made = [RestRoute(each.path, self._endpoint(each), methods=[each.method], name=each.id) for each in often_first]

        async def describe(request: Request) -> Response:
            return Response(self._description, media_type="application/json", headers=SAFE)

        return [*made, Route("/v1/openapi.json", describe)]

    def _endpoint(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        is_async = inspect.iscoroutinefunction(operation.call)

        async def answer(request: Request) -> Response:
            try:
                with AnswerShare(self.answers) as answers, ByteShare(self.bodies) as share:
                    call = await self._call(operation, request, share, answers)
                    if is_async:
                        given = await operation.call(call)
                    else:
                        given = await self.in_thread(partial(operation.call, call))
                    if isinstance(given, Response):
                        return given
                    return response_of(given, answers, may_refuse=operation.method == "GET")
            except Exception as exc:
                return problem_of(exc)

        return answer

    async def _call(self, operation: Operation, request: Request, share: ByteShare, answers: AnswerShare) -> RestCall:
        check_head(request)
        parameters = {each.name: each.read(_GIVEN[each.place](request, each.name)) for each in operation.parameters}
        principal = getattr(request.state, "principal", None)
        if principal is None:  # there is no lock in front
            address = request.client.host if request.client else ""
            principal = self.access.of_nobody(Peer(address, DOOR))
        share.holder = holder_of(principal)
        body = await body_of(request, self.settings, share) if operation.takes else b""
        return RestCall(self, operation, principal, request.headers, parameters, body, request, answers=answers)


_GIVEN: dict[str, Callable[[Request, str], str | None]] = {
    "path": in_path,
    "query": in_query,
    "header": lambda request, name: request.headers.get(name),
}
