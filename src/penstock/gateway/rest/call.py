"""One call of an operation: principal, parameters, body, and the check of its rights; and its door."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, Unpack

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request

from penstock.access.places import ByteBudget, SharedPlaces
from penstock.access.principal import Principal
from penstock.errors import InvalidInput, UnsupportedBody
from penstock.log.store import Store
from penstock.model.record import Record

from ..door import SMALL_BYTES, Door, DoorCall, DoorOptions
from .answers import AnswerShare, RecordShown, record_shown
from .operations import Operation, ParameterValue

T = TypeVar("T")
K = TypeVar("K", str, int, float, bool)


class RestDoor(Door):
    """The store behind a REST door, and the room for requests, answers and streams that its calls share."""

    def __init__(self, store: Store, **options: Unpack[DoorOptions]) -> None:
        super().__init__("rest", store, **options)
        self.bodies = ByteBudget(self.settings.bodies_bytes, least=self.settings.body_bytes)
        self.answers = ByteBudget(
            max(self.settings.answers_bytes, self.settings.answer_bytes),
            busy="its clients have not taken {} bytes of answers",
        )
        self.streams = SharedPlaces(self.settings.streams)  # of server-sent events; in the event loop alone


@dataclass(frozen=True, slots=True)
class RestCall(DoorCall):
    """A call, as an operation sees it. From any thread."""

    door: RestDoor
    operation: Operation
    principal: Principal
    headers: Headers
    parameters: Mapping[str, ParameterValue]
    body: bytes
    request: Request
    face: str = "rest"
    answers: AnswerShare | None = None

    def admit(self, name: str) -> None:
        """Charge the bytes of the body, unless the caller's limit is used up. Raises RateLimited."""
        self.door.access.admit(self.principal, name, len(self.body))

    def room(self, most: int) -> int:
        """Return about how many bytes of records the answer may have, `most` at most.

        Raises GatewayBusy while clients leave no room.
        """
        most = min(most, self.door.settings.answer_bytes)
        return most if self.answers is None else self.answers.ask(most)

    def count(self, size: int) -> None:
        """Count bytes of records that are read for the answer, or are about to be."""
        if self.answers is not None:
            self.answers.count(size)

    @property
    def conversion(self) -> str:
        """The content type that is requested for values, if any. Raises InvalidInput."""
        return self.door.conversion.check(self.of("convert_to", str))

    def shown(self, record: Record, *, delivered: bool = False) -> RecordShown:
        """Return a record in the shape of answers, in the content type that was asked for."""
        given, reason = self.door.conversion.given(record, self.conversion)
        return record_shown(given, delivered=delivered, not_converted=reason)

    def of(self, name: str, kind: type[K]) -> K:
        """Return a required parameter."""
        value = self.parameters[name]
        assert isinstance(value, kind), name
        return value

    def get(self, name: str, kind: type[K]) -> K | None:
        """Return a parameter, if it was given."""
        value = self.parameters.get(name)
        assert value is None or isinstance(value, kind), name
        return value

    def texts(self, *names: str) -> dict[str, Any]:
        """Return text parameters, as far as they were given."""
        return {name: self.get(name, str) for name in names}

    def json(self, kind: type[T]) -> T:
        """Parse the body as JSON of a type. Raises InvalidInput, UnsupportedBody."""
        content_type = self.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise UnsupportedBody("content type", content_type, "application/json")
        try:
            return msgspec.json.decode(self.body or b"{}", type=kind)
        except (ValueError, RecursionError) as exc:  # msgspec's errors are ValueErrors
            raise InvalidInput(f"the body is not what {self.operation.id} takes: {exc}") from exc

    async def json_read(self, kind: type[T]) -> T:
        """Do the same in the event loop: a thread parses a long body."""
        read = partial(self.json, kind)
        return read() if len(self.body) <= SMALL_BYTES else await self.door.in_thread(read)
