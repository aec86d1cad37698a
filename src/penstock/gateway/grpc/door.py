"""What all calls of a gRPC port share: the store, who may do what, and threads to ask the store in."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from penstock.access.access import Access
from penstock.access.places import SharedPlaces
from penstock.clock import SYSTEM, Clock
from penstock.log.store import Store
from penstock.model.limits import LimitsSettings

from ..adding import Adding
from ..body_room import BodyRoom
from ..conversion import Conversion
from ..leased_groups import LeasedGroups
from ..settings import GatewaySettings
from ..token_upkeep import TokenUpkeep

T = TypeVar("T")


class GrpcDoor:
    """Answers for every call. It holds nothing that the store has not. In one event loop, but for `close`."""

    def __init__(
        self,
        store: Store,
        *,
        access: Access | None = None,
        settings: GatewaySettings | None = None,
        secrets_in_plaintext: bool = False,
        clock: Clock = SYSTEM,
    ) -> None:
        self.store, self.clock, self.access = store, clock, access or Access()
        self.settings = settings or GatewaySettings.load()
        self.secrets_in_plaintext = secrets_in_plaintext
        self.threads = ThreadPoolExecutor(self.settings.threads, "penstock-grpc")
        largest = self.settings.body_bytes
        half = self.settings.bodies_bytes // 2
        # Coming, and in hand. Of what comes one principal never has all: there is room for two.
        self.reading, self.bodies = BodyRoom(max(half, 2 * largest), largest), BodyRoom(half, largest)
        self.calls = SharedPlaces(self.settings.connections)
        # Watches of the health, by clients that show nothing.
        self.watches = SharedPlaces(max(8, self.settings.connections // 4))
        self.groups = LeasedGroups(store, clock, self.settings, self.threads)
        self.adding = Adding(store, clock, self.threads, LimitsSettings.load())
        self.conversion = Conversion(store, clock)
        self.tokens = TokenUpkeep(store, self.threads, clock)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Ask the store, without holding up the others."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    def give_back(self) -> None:
        """Give the groups back that clients read; from another thread, while the event loop still runs."""
        self.groups.close()

    def close(self) -> None:
        """End the threads; what they do is waited for."""
        self.threads.shutdown()
