"""State that all calls of a gRPC port share."""

from penstock.access.access import Access
from penstock.access.byte_budget import ByteBudget
from penstock.access.places import SharedPlaces
from penstock.clock import SYSTEM, Clock
from penstock.log.store import Store

from ..door import Door
from ..settings import GatewaySettings


class GrpcDoor(Door):
    """Answers every call over gRPC."""

    def __init__(
        self,
        store: Store,
        *,
        access: Access | None = None,
        settings: GatewaySettings | None = None,
        secrets_in_plaintext: bool = False,
        clock: Clock = SYSTEM,
    ) -> None:
        super().__init__("grpc", store, access, settings, clock)
        self.secrets_in_plaintext = secrets_in_plaintext
        largest, half = self.settings.body_bytes, self.settings.bodies_bytes // 2
        # Arriving, and in memory. One principal never takes all of the arriving room: there is room for two.
        self.reading = ByteBudget(max(half, 2 * largest), least=largest)
        self.bodies = ByteBudget(half, least=largest)
        self.calls = SharedPlaces(self.settings.connections)
        # Watches of the health by anonymous clients.
        self.watches = SharedPlaces(max(8, self.settings.connections // 4))
