"""One call of an operation: who asks, with which parameters and which body, and whether that is allowed."""

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
from ..answer_room import AnswerShare
from .operations import Operation, ParameterValue
from .shapes import RecordShown, record_shown

if TYPE_CHECKING:
    from .api import RestApi

T = TypeVar("T")
OnTopic = TypeVar("OnTopic", GroupPartition, DeadLetter, WaitingLane)
K = TypeVar("K", str, int, float, bool)


@dataclass(frozen=True, slots=True)
class RestCall:
    """A call, as an operation sees it. From any thread. `face`: through what it came, for the audit."""

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
        """The store that is served."""
        return self.api.store

    @property
    def actor(self) -> str:
        """Who the audit says has done it."""
        return f"{self.face}:{self.principal.name}"

    def allow(self, action: AccessRight, *resources: Resource) -> None:
        """Let the call go on if who asks may do that to each of them. Raises NotAllowed."""
        for each in resources:
            self.api.access.check(self.principal, action, each)

    def allow_topic(self, name: str | None) -> None:
        """Let a call that may be narrowed to a topic go on, if the caller may know of it. Raises NotAllowed.

        Asked before the store is: a hidden topic and one that is not there are answered alike.
        """
        if name is not None:
            self.allow(AccessRight.DESCRIBE, topic(name))

    def allow_still(self, action: AccessRight, *resources: Resource) -> None:
        """Let a call go on that has lasted a while: rules change, and what was shown may hold no more.

        Raises NotAllowed, Unauthenticated.
        """
        if not self.api.access.holds(self.principal):
            raise Unauthenticated("what was shown does not hold any more")
        self.allow(action, *resources)

    def sees(self, resource: Resource) -> bool:
        """Return whether who asks may know of it: listings leave out the rest."""
        return self.api.access.sees(self.principal, resource)

    def sees_topic(self, name: str) -> bool:
        """Return whether who asks may know of a topic."""
        return self.sees(topic(name))

    def of_topics_seen(self, page: Page[OnTopic]) -> Page[OnTopic]:
        """Return a page without what is of topics that who asks may not know of."""
        return Page([each for each in page.items if self.sees(topic(each.topic))], page.after)

    def admit(self, name: str) -> None:
        """Count the bytes of the body, unless the limit of who asks is used up. Raises RateLimited."""
        self.api.access.admit(self.principal, name, len(self.body))

    def charge(self, name: str, records: Iterable[Record]) -> float:
        """Count the bytes of records that who asks is given; return the seconds until they may have more."""
        size = sum(len(each.data or b"") for each in records)
        return self.api.access.charge(self.principal, name, size, requests=0) if size else 0.0

    def room(self, most: int) -> int:
        """Return about how many bytes of records the answer may have, with so many at most.

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
        """The content type that values shall have, if one is asked for. Raises InvalidInput."""
        return self.api.conversion.check(self.of("convert_to", str))

    def shown(self, record: Record, *, delivered: bool = False) -> RecordShown:
        """Return a record as it is shown, in the content type that was asked for."""
        given, reason = self.api.conversion.given(record, self.conversion)
        return record_shown(given, delivered=delivered, not_converted=reason)

    def of(self, name: str, kind: type[K]) -> K:
        """Return a parameter that is always there."""
        value = self.parameters[name]
        assert isinstance(value, kind), name
        return value

    def get(self, name: str, kind: type[K]) -> K | None:
        """Return a parameter, if it was given."""
        value = self.parameters.get(name)
        assert value is None or isinstance(value, kind), name
        return value

    def json(self, kind: type[T]) -> T:
        """Return the body as JSON of a kind. Raises InvalidInput, UnsupportedBody."""
        content_type = self.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise UnsupportedBody("content type", content_type, "application/json")
        try:
            return msgspec.json.decode(self.body or b"{}", type=kind)
        except (ValueError, RecursionError) as exc:  # msgspec's errors are ValueErrors
            raise InvalidInput(f"the body is not what {self.operation.id} takes: {exc}") from exc

    async def json_read(self, kind: type[T]) -> T:
        """Do the same in the event loop: a long body is read in a thread."""
        if len(self.body) <= SMALL_BYTES:
            return self.json(kind)
        return await asyncio.get_running_loop().run_in_executor(self.api.threads, self.json, kind)
