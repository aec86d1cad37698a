"""State that all connections of a TinyQ port share: the store, admission, and threads that ask the store."""

import asyncio
import hmac

from penstock.access.access import Access
from penstock.access.places import ConnectionPlaces
from penstock.access.principal import Peer, Principal
from penstock.access.resource import AccessRight, group, topic
from penstock.clock import SYSTEM, Clock
from penstock.errors import InvalidInput
from penstock.log.store import Store
from penstock.operate.ports import SHARED, TinyqAdministration, TopicMode

from ..door import Door
from ..settings import GatewaySettings, TinyqSettings

BUILT_IN = "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92"  # of 123456, which TinyQ was made with
DOOR = "tinyq"


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
        super().__init__("tinyq", store, access, gateway, clock, self.administration.limits)
        self.places = ConnectionPlaces[asyncio.StreamWriter](self.tinyq.max_connections, _abort)

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
        self.access.check_still(principal, right, topic(name))
        if of_group is not None:
            self.access.check(principal, AccessRight.READ, group(of_group))

    async def readied(self, principal: Principal, name: str, of_group: str) -> TopicMode:
        """Return the mode of a topic to subscribe to; create it if missing and the principal may.

        Raises NotAllowed.
        """
        self.check(principal, AccessRight.READ, name, of_group)
        if not await self.in_thread(lambda: self.administration.has(name)):
            self.check(principal, AccessRight.CREATE, name)
        return await self.in_thread(lambda: self.administration.ensure(name, shared=of_group == SHARED))


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
