"""The console as routes: pages, acts, static files. Renders pages and adds the headers to every answer."""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from penstock.errors import MissingExtra

try:  # before the modules of ours that import them
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from starlette.applications import Starlette
    from starlette.datastructures import ImmutableMultiDict
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import RedirectResponse, Response
    from starlette.routing import BaseRoute, Mount, Route
except ImportError as exc:
    raise MissingExtra("the console", "console") from exc

from penstock.access.principal import Peer
from penstock.errors import Error, Fault, NotAllowed
from penstock.gateway.lock import DOOR
from penstock.gateway.problem import status_of
from penstock.gateway.rest.api import RestApi
from penstock.gateway.rest.requests import check_head
from penstock.redaction import traced

from .acts import ACTS, LOOK, ActPlan, ConsoleAct
from .history import HEIGHT, WIDTH, OverviewHistory
from .lake import LakeView
from .safety import MARK, Protected, Sessions, read_form
from .views import PAGES, ConsolePage
from .views.records import download
from .visit import BASE, Asking, ConsoleSettings, PageView, PageVisit, address, trace_address, trace_template
from .wording import FILTERS

logger = logging.getLogger("penstock.console")

_STATIC = Path(__file__).parent / "static"
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_KEPT = "public, max-age=31536000, immutable"  # the URL of a file changes with its content
T = TypeVar("T")
PageForm = ImmutableMultiDict[str, str]
PageHandler = Callable[[Request], Awaitable[Response]]


class ConsoleSite:
    """The console of one store. `api` runs the operations in its threads; its routes need not be served.

    `allow_actions`: offer acts to visitors who enter `token` or have a name by the access rules. `lake`: the
    lake that pipelines write, if it is to be shown.
    """

    def __init__(
        self, api: RestApi, *, allow_actions: bool = False, token: str | None = None, lake: LakeView | None = None
    ) -> None:
        self._api, self._allow_actions, self._token = api, allow_actions, token
        self._lake = lake
        self._history, self._sessions = OverviewHistory(api.clock), Sessions(api.clock)
        self._files = {each.name: each.read_bytes() for each in sorted(_STATIC.iterdir())}
        self._version = hashlib.sha256(b"".join(self._files.values())).hexdigest()[:12]
        self._templates = Environment(
            loader=PackageLoader("penstock.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(FILTERS)
        self._templates.globals.update(
            address=address,
            acts=ACTS,
            chart_width=WIDTH,
            chart_height=HEIGHT,
            store=api.store.name,
            MARK=MARK,
            LOOK=LOOK,
            trace_address=partial(trace_address, trace_template(ConsoleSettings.load())),
        )

    def application(self) -> Starlette:
        """Return the console as an application of its own."""
        return Starlette(routes=self.routes())

    def routes(self) -> list[BaseRoute]:
        """Return the routes: the redirect from `/`, and below `/console` the pages, acts and static files."""
        pages = [Route(f"/{each.path}", self._page(each), name=each.title) for each in PAGES]
        below = Starlette(
            routes=[
                *pages,
                Route("/act/{word}", self._guarded(self._ask_first), methods=["GET"]),
                Route("/act/{word}", self._formed(self._act), methods=["POST"]),
                Route("/unlock", self._guarded(self._ask_token), methods=["GET"]),
                Route("/unlock", self._formed(self._unlock), methods=["POST"]),
                Route("/lock", self._formed(self._lock), methods=["POST"]),
                Route("/value", self._guarded(self._value)),
                Route("/static/{version}/{file}", self._guarded(self._file)),
            ],
            exception_handlers={HTTPException: self._no_such_page},
        )
        below.router.redirect_slashes = False
        home = Protected(RedirectResponse(f"{BASE}/", 307))
        return [Route("/", home), Route(BASE, home), Mount(BASE, Protected(below))]

    # -- the pages

    def _page(self, page: ConsolePage) -> PageHandler:
        async def answer(request: Request) -> Response:
            visit = self._visit(request, request.query_params)
            view = await self._in_thread(lambda: page.view(visit))
            return self._rendered(request, page, view, visit)

        return self._guarded(answer, page)

    async def _no_such_page(self, request: Request, exc: Exception) -> Response:
        assert isinstance(exc, HTTPException)
        return self._error(request, "no_such_page", "this page does not exist", exc.status_code)

    async def _value(self, request: Request) -> Response:
        visit = self._visit(request, request.query_params)
        return await self._in_thread(lambda: download(visit))

    async def _file(self, request: Request) -> Response:
        name = request.path_params["file"]
        if name not in self._files:
            return Response("this file does not exist", 404, media_type="text/plain")
        return Response(self._files[name], media_type=_KINDS[Path(name).suffix], headers={"cache-control": _KEPT})

    # -- the acts

    async def _ask_first(self, request: Request) -> Response:
        act = ACTS.get(request.path_params["word"])
        visit = self._visit(request, request.query_params)
        if act is None or not visit.can_act:
            return self._refused(request, act)
        plan = await self._in_thread(lambda: act.plan(visit))
        fields = [each for each in request.query_params.multi_items() if each[0] != MARK]
        return self._asked(request, act, plan, fields, visit)

    def _asked(
        self, request: Request, act: ConsoleAct, plan: ActPlan, fields: list[tuple[str, str]], visit: PageVisit
    ) -> Response:
        own = dict(plan.fields)
        kept = [each for each in fields if each[0] not in own]
        view = PageView("act.html", {"act": act, "plan": plan, "fields": [*kept, *own.items()]})
        return self._rendered(request, None, view, visit)

    async def _act(self, request: Request, session: str, form: PageForm) -> Response:
        act, visit = ACTS.get(request.path_params["word"]), self._visit(request, form)
        if act is None or not visit.can_act:
            return self._refused(request, act)
        if form.get(LOOK):  # the preview of a form that is too long or too private for a URL
            plan = await self._in_thread(lambda: act.plan(visit))
            fields = [each for each in form.multi_items() if each[0] not in (MARK, LOOK)]
            return self._asked(request, act, plan, fields, visit)
        try:
            plan, message = await self._in_thread(lambda: _carried_out(act, visit))
        finally:
            self._history.acted()
        self._sessions.tell(session, message)
        return RedirectResponse(plan.back, 303)

    async def _ask_token(self, request: Request) -> Response:
        return self._unlock_page(request, has_failed=False)

    async def _unlock(self, request: Request, session: str, form: PageForm) -> Response:
        shown = str(form.get("token", "")).strip().encode("utf-8", "surrogatepass")
        if self._token is None or not hmac.compare_digest(self._token.encode(), shown):
            return self._unlock_page(request, has_failed=True)
        answer = RedirectResponse(f"{BASE}/", 303)
        self._sessions.keep(answer, request, self._sessions.unlock())
        return answer

    async def _lock(self, request: Request, session: str, form: PageForm) -> Response:
        self._sessions.lock(session)
        return RedirectResponse(f"{BASE}/", 303)

    # -- inside

    def _guarded(self, handler: PageHandler, page: ConsolePage | None = None) -> PageHandler:
        async def answer(request: Request) -> Response:
            try:
                check_head(request)
                return await handler(request)
            except Error as exc:
                return self._failed(request, page, exc)
            except Exception as exc:
                logger.error("a page failed with an unexpected error", exc_info=traced(exc))
                return self._error(request, "error", None, 500)

        return answer

    def _formed(self, handler: Callable[[Request, str, PageForm], Awaitable[Response]]) -> PageHandler:
        async def answer(request: Request) -> Response:
            session, form = self._sessions.of(request), await read_form(request)
            if self._sessions.is_genuine(request, session, str(form.get(MARK, ""))):
                return await handler(request, session, form)
            message = "the form did not come from this page, or the page was open for too long; open it again"
            return self._error(request, "form_unknown", message, 403)

        return self._guarded(answer)

    def _visit(self, request: Request, query: PageForm) -> PageVisit:
        principal = getattr(request.state, "principal", None)
        if principal is None:  # the listener has no lock
            address = request.client.host if request.client else ""
            principal = self._api.access.of_nobody(Peer(address, DOOR))
        shown = self._sessions.is_unlocked(self._sessions.of(request)) or not principal.is_anonymous
        asking = Asking(self._api, request, principal)
        is_live = request.headers.get("x-live") is not None
        return PageVisit(asking, query, self._history, self._allow_actions and shown, self._lake, is_live)

    def _rendered(
        self, request: Request, page: ConsolePage | None, view: PageView, visit: PageVisit | None
    ) -> Response:
        session = self._sessions.of(request)
        values = {
            "pages": PAGES,
            "page": page,
            "query": request.query_params,
            "path": request.url.path,
            "here": f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path,
            "static": f"{BASE}/static/{self._version}",
            "mark": self._sessions.mark(session),
            "can_act": visit is not None and visit.can_act,
            "is_unlocked": self._sessions.is_unlocked(session),
            "offers_unlock": self._allow_actions and self._token is not None,
            "who": None if visit is None else visit.ask.principal,
            "told": self._sessions.take_message(session) if request.headers.get("x-live") is None else None,
            **({} if visit is None else {"now": visit.now}),
        }
        html = self._templates.get_template(view.template).render(values | dict(view.values))
        answer = Response(html.encode("utf-8", "backslashreplace"), view.status, media_type="text/html")
        self._sessions.keep(answer, request, session)
        return answer

    def _unlock_page(self, request: Request, *, has_failed: bool) -> Response:
        view = PageView("unlock.html", {"has_failed": has_failed}, 403 if has_failed else 200)
        return self._rendered(request, None, view, None)

    def _error(
        self, request: Request, code: str, message: str | None, status: int, page: ConsolePage | None = None
    ) -> Response:
        view = PageView("error.html", {"code": code, "message": message}, status)
        return self._rendered(request, page, view, None)

    def _failed(self, request: Request, page: ConsolePage | None, error: Error) -> Response:
        status = status_of(error)
        message: str | None = str(error)
        if status >= 500 and error.fault is not Fault.OUTSIDE and not error.retryable and status != 503:
            logger.error("a page failed", exc_info=traced(error))
            message = None  # the visitor can do nothing about it
        return self._error(request, error.code, message, status, page)

    def _refused(self, request: Request, act: ConsoleAct | None) -> Response:
        if act is None:
            return self._error(request, "no_such_act", None, 404)
        message = (
            "enter the token first: the console printed it when it started"
            if self._allow_actions
            else "this console is read-only; start it with --allow-actions to act"
        )
        return self._error(request, NotAllowed.code, message, 403)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._api.threads, work)


def _carried_out(act: ConsoleAct, visit: PageVisit) -> tuple[ActPlan, str]:
    plan = act.plan(visit)
    return plan, plan.done([step() for step in plan.steps])
