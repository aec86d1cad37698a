"""The parameters in the path and query of a request, as they were sent."""

from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Scope

from penstock.errors import InvalidInput

_REPLACED = "\N{REPLACEMENT CHARACTER}"  # the server's substitute for bytes that are not text
_SLASH = "\0"  # stands for a slash in a name during routing; no name holds a NUL


class RestRoute(Route):
    """A route by the path as sent, in which a slash within a name is %2F."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for this route, and its parameters."""
        sent = scope.get("raw_path") or b""
        if b"%2" not in sent or scope["type"] != "http":
            return super().matches(scope)
        parts = [unquote(each) for each in sent.partition(b"?")[0].decode("latin-1").split("/")]
        if not any("/" in each for each in parts) or any(_SLASH in each for each in parts):
            return super().matches(scope)
        path = "/".join(each.replace("/", _SLASH) for each in parts)
        match, found = super().matches({**scope, "path": path})
        if match is Match.NONE:
            return match, found
        named = {
            name: value.replace(_SLASH, "/") if isinstance(value, str) else value
            for name, value in found["path_params"].items()
        }
        return match, {**found, "path_params": named}


def in_path(request: Request, name: str) -> str:
    """Return a parameter of the path. Raises InvalidInput if it is not UTF-8."""
    value = str(request.path_params[name])
    if _REPLACED in value:
        sent: bytes = request.scope.get("raw_path") or b""
        _check(name, unquote(sent.decode("latin-1"), errors="surrogateescape"))
    return value


def in_query(request: Request, name: str) -> str | None:
    """Return a parameter of the query, if it is there. Raises InvalidInput if it is not UTF-8."""
    value = request.query_params.get(name)
    if value is not None and _REPLACED in value:
        sent: bytes = request.scope["query_string"]
        pairs = parse_qsl(sent.decode("latin-1"), keep_blank_values=True, errors="surrogateescape")
        _check(name, "".join(text for each, text in pairs if each == name))
    return value


def _check(name: str, sent: str) -> None:
    """Refuse bytes that are not text: they would be taken for another name, key or id."""
    if any("\udc80" <= each <= "\udcff" for each in sent):
        raise InvalidInput(f"the parameter {name} is not UTF-8 once its %XX are read")
