"""Operations, as rows of a table. The same row routes a call, checks its parameters, and describes it.

The description of all rows is OpenAPI 3.1.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from penstock.errors import InvalidInput, shown

from ..problem import PROBLEM, Problem

F = TypeVar("F", bound=Callable[..., Any])

ParameterValue = str | int | float | bool | None
LAST_OFFSET = (1 << 63) - 1
_JSON = "application/json"
_REF = "#/components/schemas/{name}"
_INFO = {
    "title": "Penstock",
    "version": "1",
    "description": "The log, its groups and the operations on them. Times are RFC 3339.",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation, in its path, its query or a header of the request."""

    name: str
    kind: type = str
    help: str = ""
    place: str = "query"
    default: ParameterValue = None
    required: bool = False
    least: float | None = None
    most: float | None = None
    longest: int = 1024
    pattern: str | None = None
    example: ParameterValue = None

    def read(self, given: str | None) -> ParameterValue:
        """Parse the value of the parameter. Raises InvalidInput."""
        if given is None:
            if self.required:
                raise InvalidInput(f"the parameter {self.name} is missing: {self.help}")
            return self.default
        if self.kind is bool:
            if given not in ("true", "false"):
                raise self._refused(given, "true or false")
            return given == "true"
        if self.kind is str:
            if len(given) > self.longest or "\0" in given:
                raise self._refused(given, f"{self.longest} characters at most, and none of them NUL")
            return given
        try:
            if len(given) > 32 or "_" in given or not given.isascii() or given.strip() != given:
                raise ValueError
            number: float = self.kind(given)
        except ValueError:
            raise self._refused(given, "a whole number" if self.kind is int else "a number") from None
        low, high = self.least, self.most
        if (low is not None and not number >= low) or (high is not None and not number <= high):
            raise self._refused(given, f"{low:g} to {high:g}" if high is not None else f"{low:g} or more")
        return number

    def _refused(self, given: str, wanted: str) -> InvalidInput:
        return InvalidInput(f"the parameter {self.name} is {shown(given)}, and must be {wanted}")

    def schema(self) -> dict[str, Any]:
        """Return its OpenAPI schema."""
        schema = {
            "type": {str: "string", int: "integer", float: "number", bool: "boolean"}[self.kind],
            "maxLength": self.longest if self.kind is str else None,
            "minimum": self.least,
            "maximum": self.most,
            "pattern": self.pattern,
            "default": self.default,
        }
        described = {
            "name": self.name,
            "in": self.place,
            "schema": _without_none(schema),
            "description": self.help or None,
            "required": self.required or self.place == "path" or None,
            "example": self.example,
        }
        return _without_none(described)


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """The answer of an operation: a value that is sent as JSON, its status, and headers."""

    value: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation.

    `call` gets a `RestCall`: a plain function runs in a thread of the gateway, an async one in its event
    loop. `takes` are the content types of its body, each with its type if it is JSON of ours.
    """

    method: str
    path: str
    id: str
    summary: str
    tag: str
    call: Callable[[Any], Any]
    parameters: tuple[Parameter, ...] = ()
    takes: Mapping[str, Any] = field(default_factory=dict)
    needs_body: bool = True
    answers: Mapping[int, Any] = field(default_factory=dict)
    media_type: str = _JSON

    def described(self, by_kind: Mapping[int, Any]) -> dict[str, Any]:
        """Return its OpenAPI description; `by_kind`: the schemas of types."""

        def schema(kind: Any) -> Any:
            return kind if isinstance(kind, dict) else {} if kind is None else by_kind[id(kind)]

        responses: dict[str, Any] = {}
        for status, kind in self.answers.items():
            responses[str(status)] = {"description": "Done." if status < 300 else "Not done."}
            if kind is not None:
                responses[str(status)]["content"] = {self.media_type: {"schema": schema(kind)}}
        problem = {PROBLEM: {"schema": by_kind[id(Problem)]}}
        responses["default"] = {"description": "It could not be done.", "content": problem}
        taken = {name: {"schema": schema(kind)} for name, kind in self.takes.items()}
        described = {
            "operationId": self.id,
            "summary": self.summary,
            "tags": [self.tag],
            "responses": responses,
            "parameters": [each.schema() for each in self.parameters] or None,
            "requestBody": {"required": self.needs_body, "content": taken} if taken else None,
        }
        return _without_none(described)


def _without_none(described: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in described.items() if value is not None}


class Operations:
    """The operations on a subject; `add` declares one above its function."""

    def __init__(self, tag: str) -> None:
        self._tag, self._rows = tag, list[Operation]()

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._rows)

    def add(
        self,
        method: str,
        path: str,
        *parameters: Parameter,
        tag: str = "",
        body: Any = None,
        answers: Mapping[int, Any] | None = None,
        **more: Any,
    ) -> Callable[[F], F]:
        """Declare the operation that a function carries out: its name is the id, its docstring the summary.

        `body`: the type of its JSON. `answers`: by status; usually 200 with what the function returns.
        """
        if body is not None:
            more["takes"] = {_JSON: body}

        def declare(call: F) -> F:
            given = {200: call.__annotations__["return"]} if answers is None else answers
            words: dict[str, Any] = {"id": call.__name__, "summary": call.__doc__ or "", "tag": tag or self._tag}
            made = Operation(method=method, path=path, call=call, parameters=parameters, answers=given, **words, **more)
            self._rows.append(made)
            return call

        return declare


def described(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI description of operations."""
    bodies = [kind for each in operations for kind in (*each.takes.values(), *each.answers.values())]
    typed = [kind for kind in bodies if kind is not None and not isinstance(kind, dict)]
    kinds = list({id(kind): kind for kind in (Problem, *typed)}.values())
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = each.described(by_kind)
    return {"openapi": "3.1.0", "info": _INFO, "paths": paths, "components": {"schemas": components}}


def moment(name: str, text: str, words: str) -> datetime:
    """Parse a moment in a parameter that takes other words, too. Raises InvalidInput."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        wanted = f"{words}, an offset, or a moment with a zone, such as 2026-11-16T02:00:00Z"
        raise InvalidInput(f"{name} is {shown(text)}, and must be {wanted}")
    return found


def narrowing(**names: str) -> tuple[Parameter, ...]:
    """Return parameters that narrow a listing, with their help."""
    return tuple(Parameter(name, help=text) for name, text in names.items())


TOPIC = Parameter(
    "topic", place="path", help="The name of a topic.", longest=249, pattern="^[a-zA-Z0-9._-]{1,249}$", example="orders"
)
GROUP = Parameter("group", place="path", help="The name of a group.", longest=255, example="mailer")
PARTITION = Parameter("partition", int, "A partition.", "path", least=0, most=9_999, example=0)
CONVERT_TO = Parameter(
    "convert_to",
    help="The content type that values shall have, by the schema that is registered; empty: as they are.",
    default="",
    longest=100,
    pattern="^(application/json|application/x-protobuf|)$",
)
PAGING = (
    Parameter("after", help="The `after` of the page before, for the next one."),
    Parameter("limit", int, "Most items of the page.", default=100, least=1, most=1000),
)
