"""grpc.health.v1: whether the store answers. Probes need no secret and get yes or no."""

import asyncio
from typing import Any

from grpc_health.v1 import health, health_pb2

from penstock.access.places import SharedPlaces, holder_of
from penstock.access.principal import Peer, anonymous
from penstock.errors import GatewayBusy

from ..readiness import StoreProbe
from .door import peer_of
from .methods import refuse
from .problems import problem_of

_LOOK_SECONDS = 5.0  # between checks while a client watches
_STATUS = health_pb2.HealthCheckResponse


class Health(health.aio.HealthServicer):  # type: ignore[misc]
    """Asks the store at each request; while a client watches, every few seconds."""

    def __init__(self, probe: StoreProbe, services: tuple[str, ...], places: SharedPlaces) -> None:
        super().__init__()
        self._probe, self._services = probe, ("", *services)
        self._watching, self._places = 0, places
        self._looking: asyncio.Task[None] | None = None

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802  # as the description has it
        """Answer once."""
        await self._look()
        return await super().Check(request, context)

    async def Watch(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answer now, and whenever the answer changes."""
        address = peer_of(context.peer(), {}, secrets_in_plaintext=False).address
        holder = holder_of(anonymous(Peer(address)))
        if not self._places.take(holder):
            await refuse(context, problem_of(GatewayBusy("it is watched by as many as may watch")))
        self._watching += 1
        try:
            await self._look()
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._go_on())
            return await super().Watch(request, context)
        finally:
            self._watching -= 1
            self._places.give_back(holder)

    async def _go_on(self) -> None:
        while self._watching:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._look()

    async def _look(self) -> None:
        status = _STATUS.NOT_SERVING if await self._probe.ask() else _STATUS.SERVING
        for each in self._services:
            await self.set(each, status)
