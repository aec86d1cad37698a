"""One call of an operation: its principal, parameters, body, and the check of its rights."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request

from penstock.access.principal import Principal
from penstock.access.resource import AccessRight, Resource, topic
from penstock.errors import InvalidInput, Unauthenticated, UnsupportedBody
from penstock.log.store import Store
from penstock.model.record import Record
from penstock.operate.dead import DeadLetter
from penstock.operate.groups import GroupPartition
from penstock.operate.lanes import WaitingLane
from penstock.operate.paging import Page

from ..adding import SMALL_BYTES
from .answers import AnswerShare
from .operations import Operation, ParameterValue
from .shapes import RecordShown, record_shown

if TYPE_CHECKING:
    from .api import RestApi

T = TypeVar("T")
OnTopic = TypeVar("OnTopic", GroupPartition, DeadLetter, WaitingLane)
K = TypeVar("K", str, int, float, bool)


@dataclass(frozen=True, slots=True)
class RestCall:
    """A call, as an operation sees it. From any thread. `face`: the interface it came by, for the audit."""

    api: "RestApi"
    operation: Operation
    principal: Principal
    headers: Headers
    parameters: Mapping[str, ParameterValue]
    body: bytes
    request: Request
    face: str = "rest"
    answers: AnswerShare | None = None

    @property
    def store(self) -> Store:
        """The store of this door."""
        return self.api.store

    @property
    def actor(self) -> str:
        """The actor in the audit."""
        return f"{self.face}:{self.principal.name}"

    def allow(self, action: AccessRight, *resources: Resource) -> None:
        """Check that the caller has a right to each resource. Raises NotAllowed."""
        for each in resources:
            self.api.access.check(self.principal, action, each)

    def allow_topic(self, name: str | None) -> None:
        """Check that the caller may know of the topic that a call is narrowed to, if any. Raises NotAllowed.

        It comes before any query: a hidden topic and a missing one get the same answer.
        """
        if name is not None:
            self.allow(AccessRight.DESCRIBE, topic(name))

    def allow_still(self, action: AccessRight, *resources: Resource) -> None:
        """Check again in a call that lasts: rules change, and a credential may be invalid by now.

        Raises NotAllowed, Unauthenticated.
        """
        if not self.api.access.holds(self.principal):
            raise Unauthenticated("what was shown does not hold any more")
        self.allow(action, *resources)

    def sees(self, resource: Resource) -> bool:
        """Return whether the caller may know of a resource: listings leave out the rest."""
        return self.api.access.sees(self.principal, resource)

    def sees_topic(self, name: str) -> bool:
        """Return whether the caller may know of a topic."""
        return self.sees(topic(name))

    def of_topics_seen(self, page: Page[OnTopic]) -> Page[OnTopic]:
        """Return a page without the entries of topics that the caller may not know of."""
        return Page([each for each in page.items if self.sees(topic(each.topic))], page.after)

    def admit(self, name: str) -> None:
        """Charge the bytes of the body, unless the caller's limit is used up. Raises RateLimited."""
        self.api.access.admit(self.principal, name, len(self.body))

    def charge(self, name: str, records: Iterable[Record]) -> float:
        """Charge the bytes of records for the caller; return the seconds until it may have more."""
        size = sum(len(each.data or b"") for each in records)
        return self.api.access.charge(self.principal, name, size, requests=0) if size else 0.0

    def room(self, most: int) -> int:
        """Return about how many bytes of records the answer may have, `most` at most.

        Raises GatewayBusy while clients leave no room.
        """
        most = min(most, self.api.settings.answer_bytes)
        return most if self.answers is None else self.answers.ask(most)

    def count(self, size: int) -> None:
        """Count bytes of records that are read for the answer, or are about to be."""
        if self.answers is not None:
            self.answers.count(size)

    @property
    def conversion(self) -> str:
        """The content type that is requested for values, if any. Raises InvalidInput."""
        return self.api.conversion.check(self.of("convert_to", str))

    def shown(self, record: Record, *, delivered: bool = False) -> RecordShown:
        """Return a record in the shape of answers, in the content type that was asked for."""
        given, reason = self.api.conversion.given(record, self.conversion)
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
        if len(self.body) <= SMALL_BYTES:
            return self.json(kind)
        return await asyncio.get_running_loop().run_in_executor(self.api.threads, self.json, kind)
