"""State that all connections of a TinyQ port share; its answers to errors; and broadcasts.

In a broadcast a connection receives every record of a topic as it comes.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterator, Sequence

from penstock import errors as e
from penstock.access.access import Access
from penstock.access.places import ConnectionPlaces
from penstock.access.principal import Peer, Principal
from penstock.access.resource import AccessRight, group, topic
from penstock.clock import SYSTEM, Clock
from penstock.errors import Error, InvalidInput
from penstock.errors.base import ErrorTable
from penstock.log.store import Store
from penstock.model.record import Record
from penstock.operate.ports import SHARED, TinyqAdministration, TopicMode
from penstock.operate.tail import StoreTail, some
from penstock.wire.tinyq.frames import TinyqCode as C

from ..door import Door
from ..problem import STATUSES
from ..settings import GatewaySettings, TinyqSettings
from ..subscription import SendRecords

BUILT_IN = "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92"  # of 123456, which TinyQ was made with
DOOR = "tinyq"
SendRecord = Callable[[Record], Awaitable[None]]
_LOOK_SECONDS = 0.1  # between two looks for records to broadcast
_AT_ONCE, _ABOUT_BYTES = 100, 1 << 20  # read together


class TinyqDoor(Door):
    """Answers every connection of the TinyQ port."""

    def __init__(
        self,
        store: Store,
        *,
        access: Access | None = None,
        settings: TinyqSettings | None = None,
        gateway: GatewaySettings | None = None,
        secrets_in_plaintext: bool = False,
        clock: Clock = SYSTEM,
    ) -> None:
        """Raises InvalidInput for the built-in password, or if no client could be admitted."""
        self.secrets_in_plaintext = secrets_in_plaintext
        self.tinyq = settings or TinyqSettings.load()
        self._password = self.tinyq.password_sha256.strip().lower()
        access = access or Access()
        if self._password == BUILT_IN:
            raise InvalidInput("tinyq.password_sha256 is that of TinyQ's built-in password; set one of your own")
        if self._password and (len(self._password) != 64 or not set(self._password) <= set("0123456789abcdef")):
            raise InvalidInput("tinyq.password_sha256 is not 64 digits in hex: printf %s PASSWORD | sha256sum")
        if not self._password and "OAUTHBEARER" not in access.mechanisms:
            raise InvalidInput(
                "nobody could connect to the TinyQ port: set tinyq.password_sha256, or give the access file "
                "a token that is the SHA-256 of a password"
            )
        self.administration = TinyqAdministration(
            store, partitions=self.tinyq.partitions, payload_bytes=self.tinyq.max_body_bytes, clock=clock
        )
        super().__init__("tinyq", store, self.administration.limits, access=access, settings=gateway, clock=clock)
        self.places = ConnectionPlaces[asyncio.StreamWriter](
            self.tinyq.max_connections, lambda writer: writer.transport.abort()
        )

    async def authenticate(self, secret: str, peer: Peer) -> Principal:
        """Return the principal of a secret. Raises Unauthenticated."""
        shown, access = secret.strip(), self.access
        if shown.lower() == BUILT_IN:
            raise access.refuse("password", peer, "that is TinyQ's built-in password")
        await asyncio.sleep(access.wait_for_secret(shown, peer))

        def fits(given: str) -> bool:
            return hmac.compare_digest(given.lower().encode(), self._password.encode())

        own = fits if self._password else None
        return await self.in_thread(lambda: access.authenticate_secret(SHARED, shown, own, peer))

    def check(self, principal: Principal, right: AccessRight, name: str, of_group: str | None = None) -> None:
        """Check a right to a topic, and the right to read as a group. Raises NotAllowed."""
        self.access.check_still(principal, right, topic(name))
        if of_group is not None:
            self.access.check(principal, AccessRight.READ, group(of_group))

    async def readied(self, principal: Principal, name: str, of_group: str) -> TopicMode:
        """Return the mode of a topic to subscribe to; create it if missing and the principal may. Raises NotAllowed."""
        self.check(principal, AccessRight.READ, name, of_group)
        if not await self.in_thread(lambda: self.administration.has(name)):
            self.check(principal, AccessRight.CREATE, name)
        return await self.in_thread(lambda: self.administration.ensure(name, shared=of_group == SHARED))


# The first byte of an answer to TinyQ's clients: by the HTTP status of the error, except for a few.
_BY_STATUS = {401: C.REFUSED, 403: C.REFUSED, 408: C.LATE, 413: C.SIZE_INVALID, 421: C.REFUSED, 429: C.BUSY}


def _by_status(cls: type[Error]) -> C:
    status = STATUSES.of(cls)
    return _BY_STATUS.get(status, C.INTERNAL if status >= 500 else C.BODY_INVALID)


ANSWERS = ErrorTable(_by_status, {C.BUSY: (e.StoreLocked, e.StoreBusy, e.BufferFull, e.GatewayBusy, e.NotSettled)})


def answer_to(error: Error) -> C:
    """Return the code of an error for TinyQ's clients."""
    return ANSWERS.of(type(error))


async def broadcast(door: TinyqDoor, principal: Principal, tail: StoreTail, name: str, send: SendRecord) -> None:
    """Send every record of a topic from now on; the position belongs to this connection."""
    while True:
        door.check(principal, AccessRight.READ, name)
        records: Iterator[Record] = iter(tail.records())
        while found := await door.in_thread(lambda: some(records, _AT_ONCE, _ABOUT_BYTES)):  # noqa: B023
            for each in found:
                door.check(principal, AccessRight.READ, name)  # a slow client takes its time
                await send(each)
            await asyncio.sleep(door.access.charge_records(principal, name, [each.data for each in found]))
        await asyncio.sleep(_LOOK_SECONDS)


def one_by_one(send: SendRecord, check: Callable[[], None]) -> SendRecords:
    """Return a function that sends records, a frame for each, while the client may read them."""

    async def send_all(records: Sequence[Record]) -> None:
        for each in records:
            check()  # a slow client takes its time
            await send(each)

    return send_all
