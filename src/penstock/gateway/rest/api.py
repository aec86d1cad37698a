"""The REST door of one store: the table of its operations, served as routes of the gateway's application."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.access.access import Access
from penstock.access.places import SharedPlaces, holder_of
from penstock.access.principal import Peer
from penstock.clock import SYSTEM, Clock
from penstock.errors import Error
from penstock.log.store import Store
from penstock.model.limits import LimitsSettings

from ..adding import Adding
from ..answer_room import PIECE_BYTES, AnswerRoom, AnswerShare
from ..body_room import BodyRoom, BodyShare
from ..conversion import Conversion
from ..leased_groups import LeasedGroups
from ..lock import DOOR
from ..settings import GatewaySettings
from ..token_upkeep import TokenUpkeep
from .addresses import RestRoute, in_path, in_query
from .bodies import body_of, check_head
from .call import RestCall
from .groups import GROUPS
from .leases import LEASES
from .observing import OBSERVING
from .openapi import described
from .operating import OPERATING
from .operations import Operation, RestAnswer
from .problems import defect, encoded, problem_of
from .publishing import PUBLISHING
from .reading import READING
from .schemas import SCHEMAS
from .tailing import TAILING
from .topics import TOPICS

OPERATIONS: tuple[Operation, ...] = (
    *TOPICS,
    *SCHEMAS,
    *PUBLISHING,
    *READING,
    *TAILING,
    *GROUPS,
    *LEASES,
    *OPERATING,
    *OBSERVING,
)
_OFTEN = ("records", "consuming")  # tags of the most frequent operations
_SAFE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_SAFE_HEAD = [(name.encode(), value.encode()) for name, value in _SAFE.items()]
_SAFE_HEAD.append((b"content-type", b"application/json"))


class RestApi:
    """Answers calls through the rooms below. It holds no state that the store does not.

    `access` decides on rights. Calls that ask the store run in threads of its own; `close` ends them.
    """

    def __init__(
        self,
        store: Store,
        *,
        access: Access | None = None,
        settings: GatewaySettings | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self.store, self.clock = store, clock
        self.access = access or Access()
        self.settings = settings or GatewaySettings.load()
        self.threads = ThreadPoolExecutor(self.settings.threads, "penstock-rest")
        self.groups = LeasedGroups(store, clock, self.settings, self.threads)
        self.adding = Adding(store, clock, self.threads, LimitsSettings.load())
        self.conversion = Conversion(store, clock)
        self.tokens = TokenUpkeep(store, self.threads, clock)
        self.bodies = BodyRoom(self.settings.bodies_bytes, self.settings.body_bytes)
        self.answers = AnswerRoom(max(self.settings.answers_bytes, self.settings.answer_bytes))
        self.streams = SharedPlaces(self.settings.streams)  # of server-sent events; in the event loop alone
        self._description = encoded(described(OPERATIONS))

    def routes(self) -> list[Route]:
        """Return a route for each operation, and one for their description."""
        often_first = sorted(OPERATIONS, key=lambda each: each.tag not in _OFTEN)  # routers try in turn
        made = [
            RestRoute(each.path, self._endpoint(each), methods=[each.method], name=each.id)
            for each in often_first
        ]
        return [*made, Route("/v1/openapi.json", self._describe)]

    def give_back(self) -> None:
        """Give back the groups that clients read; from another thread, while the event loop still runs."""
        self.groups.close()

    def close(self) -> None:
        """End the threads, after their work."""
        self.threads.shutdown()

    async def _describe(self, request: Request) -> Response:
        return Response(self._description, media_type="application/json", headers=_SAFE)

    def _endpoint(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        is_async = inspect.iscoroutinefunction(operation.call)

        async def answer(request: Request) -> Response:
            answers = AnswerShare(self.answers)
            try:
                with BodyShare(self.bodies) as share:
                    call = await self._call(operation, request, share, answers)
                    if is_async:
                        given = await operation.call(call)
                    else:
                        loop = asyncio.get_running_loop()
                        given = await loop.run_in_executor(self.threads, operation.call, call)
                    if isinstance(given, Response):
                        return given
                    return _response(given, answers, may_refuse=operation.method == "GET")
            except Error as exc:
                return problem_of(exc)
            except Exception as exc:
                return defect(exc)
            finally:
                if not answers.is_kept:
                    answers.give_back()

        return answer

    async def _call(
        self, operation: Operation, request: Request, share: BodyShare, answers: AnswerShare
    ) -> RestCall:
        check_head(request)
        parameters = {
            each.name: each.read(_given(request, each.name, each.place)) for each in operation.parameters
        }
        principal = getattr(request.state, "principal", None)
        if principal is None:  # there is no lock in front
            address = request.client.host if request.client else ""
            principal = self.access.of_nobody(Peer(address, DOOR))
        share.holder = holder_of(principal)
        body = await body_of(request, self.settings, share) if operation.takes else b""
        return RestCall(
            self, operation, principal, request.headers, parameters, body, request, answers=answers
        )


def _given(request: Request, name: str, place: str) -> str | None:
    if place == "path":
        return in_path(request, name)
    return request.headers.get(name) if place == "header" else in_query(request, name)


class _JsonResponse(Response):
    """An answer whose head is made without looking at each header: most answers have only these."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code, self.body, self.background = status, body, None
        self.raw_headers = [*_SAFE_HEAD, (b"content-length", b"%d" % len(body))]


class _LargeJsonResponse(_JsonResponse):
    """An answer that is counted until its client has taken it."""

    def __init__(self, body: bytes, status: int, answers: AnswerShare, *, may_refuse: bool) -> None:
        super().__init__(body, status)
        answers.keep(len(body), may_refuse=may_refuse)
        self._answers = answers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it as the client takes it."""
        head = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await self._answers.send(send, head, bytes(self.body))


def _response(given: Any, answers: AnswerShare, *, may_refuse: bool) -> Response:
    answer = given if isinstance(given, RestAnswer) else RestAnswer(given)
    if answer.status == 204:
        return Response(status_code=204, headers=_SAFE | dict(answer.headers))
    body = encoded(answer.value)
    if len(body) > PIECE_BYTES:
        response: _JsonResponse = _LargeJsonResponse(body, answer.status, answers, may_refuse=may_refuse)
    else:
        response = _JsonResponse(body, answer.status)
    if answer.headers:
        response.headers.update(answer.headers)
    return response
