"""Calls operations of the REST API for a page, in this process, as the visitor."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request

from penstock.access.principal import Principal
from penstock.errors import InvalidInput
from penstock.gateway.rest.api import OPERATIONS, RestApi
from penstock.gateway.rest.call import RestCall
from penstock.gateway.rest.operations import Operation, Parameter, ParameterValue, RestAnswer

FACE = "console"  # the face that audit entries of these acts name
_BY_ID: dict[str, Operation] = {each.id: each for each in OPERATIONS}


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
    text = _text(given.get(_word(parameter.name)))
    if text is None and parameter.place == "path":
        raise InvalidInput(f"the address lacks the parameter {parameter.name}")
    return parameter.read(text)


def _word(name: str) -> str:
    """Return a parameter's name as a Python keyword argument."""
    return "from_" if name == "from" else name.replace("-", "_")


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
