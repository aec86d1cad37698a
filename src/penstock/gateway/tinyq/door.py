"""State that all connections of a TinyQ port share: the store, admission, and threads that ask the store."""

import asyncio
import hmac
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from penstock.access.access import Access
from penstock.access.places import ConnectionPlaces
from penstock.access.principal import Peer, Principal
from penstock.access.resource import AccessRight, group, topic
from penstock.clock import SYSTEM, Clock
from penstock.errors import InvalidInput, Unauthenticated
from penstock.log.store import Store
from penstock.model.record import Record
from penstock.operate.tinyq_port import SHARED, TinyqAdministration, TopicMode

from ..adding import Adding
from ..leased_groups import LeasedGroups
from ..settings import GatewaySettings, TinyqSettings
from ..token_upkeep import TokenUpkeep

T = TypeVar("T")
BUILT_IN = (
    "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92"  # of 123456, which TinyQ was made with
)
DOOR = "tinyq"


class TinyqDoor:
    """Answers every connection. In one event loop, except `close`."""

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
        self.store, self.clock, self.access = store, clock, access or Access()
        self.settings, self.gateway = settings or TinyqSettings.load(), gateway or GatewaySettings.load()
        self._password = self.settings.password_sha256.strip().lower()
        if self._password == BUILT_IN:
            raise InvalidInput(
                "tinyq.password_sha256 is that of TinyQ's built-in password; set one of your own"
            )
        if self._password and (
            len(self._password) != 64 or not set(self._password) <= set("0123456789abcdef")
        ):
            raise InvalidInput(
                "tinyq.password_sha256 is not 64 digits in hex: printf %s PASSWORD | sha256sum"
            )
        if not self._password and "OAUTHBEARER" not in self.access.mechanisms:
            raise InvalidInput(
                "nobody could connect to the TinyQ port: set tinyq.password_sha256, or give the access file "
                "a token that is the SHA-256 of a password"
            )
        self.administration = TinyqAdministration(
            store,
            partitions=self.settings.partitions,
            payload_bytes=self.settings.max_body_bytes,
            clock=clock,
        )
        self.threads = ThreadPoolExecutor(self.gateway.threads, "penstock-tinyq")
        self.adding = Adding(store, clock, self.threads, self.administration.limits)
        self.tokens = TokenUpkeep(store, self.threads, clock)
        self.groups = LeasedGroups(store, clock, self.gateway, self.threads)
        self.places = ConnectionPlaces[asyncio.StreamWriter](self.settings.max_connections, _abort)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Ask the store without blocking other connections."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    async def authenticate(self, secret: str, peer: Peer) -> Principal:
        """Return the principal of a secret. Raises Unauthenticated."""
        shown, access = secret.strip(), self.access
        if shown.lower() == BUILT_IN:
            raise access.refuse("password", peer, "that is TinyQ's built-in password")
        await asyncio.sleep(access.wait_for_secret(shown, peer))
        fits = self._fits if self._password else None
        return await self.in_thread(lambda: access.authenticate_secret(SHARED, shown, fits, peer))

    def _fits(self, shown: str) -> bool:
        return hmac.compare_digest(shown.lower().encode(), self._password.encode())

    def check(self, principal: Principal, right: AccessRight, name: str, of_group: str | None = None) -> None:
        """Check a right to a topic, and the right to read as a group. Raises NotAllowed."""
        if not self.access.holds(principal):
            raise Unauthenticated("what was shown does not hold any more")
        self.access.check(principal, right, topic(name))
        if of_group is not None:
            self.access.check(principal, AccessRight.READ, group(of_group))

    def charged(self, principal: Principal, name: str, records: Iterable[Record]) -> float:
        """Charge records sent to a principal; return how many seconds it has to wait for more."""
        size = sum(len(each.data or b"") for each in records)
        return self.access.charge(principal, name, size, requests=0) if size else 0.0

    async def readied(self, principal: Principal, name: str, of_group: str) -> TopicMode:
        """Return the mode of a topic to subscribe to; create it if missing and the principal may.

        Raises NotAllowed.
        """
        self.check(principal, AccessRight.READ, name, of_group)
        if not await self.in_thread(lambda: self.administration.has(name)):
            self.check(principal, AccessRight.CREATE, name)
        return await self.in_thread(lambda: self.administration.ensure(name, shared=of_group == SHARED))

    def give_back(self) -> None:
        """Give the groups back; from another thread, while the event loop still runs."""
        self.groups.close()

    def close(self) -> None:
        """End the threads."""
        self.threads.shutdown()


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
