"""Operations, as rows of a table. The same row routes a call, checks its parameters, and describes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import InvalidInput, shown

ParameterValue = str | int | float | bool | None
LAST_OFFSET = (1 << 63) - 1


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
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        schema: dict[str, Any] = {"type": names[self.kind]}
        if self.kind is str:
            schema |= {"maxLength": self.longest}
        for name, value in (("minimum", self.least), ("maximum", self.most), ("pattern", self.pattern)):
            if value is not None:
                schema[name] = value
        if self.default is not None:
            schema["default"] = self.default
        told: dict[str, Any] = {"name": self.name, "in": self.place, "schema": schema}
        if self.help:
            told["description"] = self.help
        if self.required or self.place == "path":
            told["required"] = True
        if self.example is not None:
            told["example"] = self.example
        return told


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
    media_type: str = "application/json"


TOPIC = Parameter(
    "topic",
    place="path",
    help="The name of a topic.",
    longest=249,
    pattern="^[a-zA-Z0-9._-]{1,249}$",
    example="orders",
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
