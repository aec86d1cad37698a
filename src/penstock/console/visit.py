"""One visit to a page: the visitor, the query of the URL, and the operations that the page calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
from starlette.datastructures import Headers, ImmutableMultiDict
from starlette.requests import Request

from penstock.access.principal import Principal
from penstock.clock import from_ms
from penstock.errors import InvalidInput, SettingOutOfRange
from penstock.gateway.rest.api import OPERATIONS, RestApi
from penstock.gateway.rest.call import RestCall
from penstock.gateway.rest.operations import Operation, Parameter, ParameterValue, RestAnswer
from penstock.settings import Settings, setting

from .history import OverviewHistory
from .lake import LakeView

BASE = "/console"
_TRACE_ID = "{trace_id}"
MOST_CHARACTERS = 1024  # that a visitor may type into one field


FACE = "console"  # the face that audit entries of these acts name
_BY_ID: dict[str, Operation] = {each.id: each for each in OPERATIONS}


class ConsoleSettings(Settings, room="console"):
    """The web console."""

    trace_url: str = setting(
        "",
        "Where a trace viewer shows a trace, with {trace_id} in place of its id, such as "
        "https://jaeger.example/trace/{trace_id}. Empty: no links to traces.",
    )


class Asking:
    """Calls operations for one request. Parameters are read and checked as REST reads and checks them."""

    def __init__(self, api: RestApi, request: Request, principal: Principal) -> None:
        self.api, self._request, self.principal = api, request, principal

    def __call__(self, named: str, body: dict[str, Any] | None = None, /, **given: Any) -> Any:
        """Return an operation's answer. Raises the operation's errors: NotAllowed, InvalidInput, Unknown…"""
        operation = _BY_ID[named]
        value = operation.call(self.call(operation, msgspec.json.encode(body or {}), **given))
        return value.value if isinstance(value, RestAnswer) else value

    def call(self, operation: Operation | str, body: bytes = b"", /, **given: Any) -> RestCall:
        """Return a call, for a function that takes a RestCall."""
        row = _BY_ID[operation] if isinstance(operation, str) else operation
        values = {each.name: _read(each, given) for each in row.parameters}
        headers = Headers({"content-type": "application/json"})
        return RestCall(self.api, row, self.principal, headers, values, body, self._request, FACE)


def _read(parameter: Parameter, given: Mapping[str, Any]) -> ParameterValue:
    value = given.get("from_" if parameter.name == "from" else parameter.name.replace("-", "_"))
    if value not in (None, ""):
        return parameter.read(str(value).lower() if isinstance(value, bool) else str(value))
    if parameter.place == "path":
        raise InvalidInput(f"the address lacks the parameter {parameter.name}")
    return parameter.read(None)


@dataclass(frozen=True, slots=True)
class PageView:
    """The answer of a view: a template, its values, and the HTTP status."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class PageVisit:
    """The input of a view. `ask` calls operations; `can_act`: whether to show buttons; `is_live`: a refresh."""

    ask: Asking
    query: ImmutableMultiDict[str, str]
    history: OverviewHistory
    can_act: bool
    lake: LakeView | None = None
    is_live: bool = False

    @property
    def now(self) -> datetime:
        """The moment of the visit."""
        return from_ms(self.ask.api.clock.now_ms())

    def text(self, name: str) -> str | None:
        """Return a value of the query; None if it is missing or empty."""
        value = self.query.get(name)
        return str(value)[:MOST_CHARACTERS] if value else None

    def needed(self, name: str) -> str:
        """Return a required value of the query. Raises InvalidInput."""
        value = self.text(name)
        if value is None:
            raise InvalidInput(f"the field {name} is empty")
        return value

    def place(self, name: str = "after") -> str | None:
        """Return the place where a page of a listing begins; it is not cut, however long."""
        value = self.query.get(name)
        return str(value) if value else None


def address(page: str, **query: Any) -> str:
    """Return the URL of a page with the query values that are not empty."""
    kept = [(name, value) for name, value in query.items() if value not in (None, "") and value is not False]
    encoded = urlencode(kept)  # 0 is a value: a partition, an offset
    path = f"{BASE}/{page}" if page else f"{BASE}/"
    return f"{path}?{encoded}" if encoded else path


def trace_template(settings: ConsoleSettings) -> str | None:
    """Return the URL template of a trace viewer; None if none is set. Raises SettingOutOfRange."""
    url = settings.trace_url
    if not url:
        return None
    if urlsplit(url).scheme not in ("http", "https") or _TRACE_ID not in url:
        wanted = f"an address that begins with http:// or https:// and has {_TRACE_ID}"
        raise SettingOutOfRange("trace_url", url, wanted, "console")
    return url


def trace_address(template: str | None, trace_id: str | None) -> str | None:
    """Return the URL of a trace in the viewer; None without a viewer or a trace."""
    return None if template is None or trace_id is None else template.replace(_TRACE_ID, trace_id)
