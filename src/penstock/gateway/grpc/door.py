"""State that all calls of a gRPC port share: the store, access control, and threads that ask the store."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from penstock.access.access import Access
from penstock.access.byte_budget import ByteBudget
from penstock.access.places import SharedPlaces
from penstock.clock import SYSTEM, Clock
from penstock.log.store import Store
from penstock.model.limits import LimitsSettings

from ..adding import Adding
from ..conversion import Conversion
from ..leased_groups import LeasedGroups
from ..settings import GatewaySettings
from ..token_upkeep import TokenUpkeep

T = TypeVar("T")


class GrpcDoor:
    """Answers every call. It holds no state that the store does not. In one event loop, except `close`."""

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
        # Arriving, and in memory. One principal never takes all of the arriving room: there is room for two.
        self.reading = ByteBudget(max(half, 2 * largest), least=largest)
        self.bodies = ByteBudget(half, least=largest)
        self.calls = SharedPlaces(self.settings.connections)
        # Watches of the health by anonymous clients.
        self.watches = SharedPlaces(max(8, self.settings.connections // 4))
        self.groups = LeasedGroups(store, clock, self.settings, self.threads)
        self.adding = Adding(store, clock, self.threads, LimitsSettings.load())
        self.conversion = Conversion(store, clock)
        self.tokens = TokenUpkeep(store, self.threads, clock)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Ask the store without blocking other calls."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    def give_back(self) -> None:
        """Give back the groups that clients read; from another thread, while the event loop still runs."""
        self.groups.close()

    def close(self) -> None:
        """End the threads, after their work."""
        self.threads.shutdown()
