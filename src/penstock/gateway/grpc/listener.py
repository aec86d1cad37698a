"""The gRPC port: grpcio's asyncio server, in a thread and an event loop of its own.

grpcio does TLS: it asks for the identity in force at every handshake, so a certificate is renewed without a
restart. It can either require a client certificate or not ask for one, so where certificates are optional,
clients of this port authenticate with a token or a password.
"""

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any

import grpc
import grpc.aio
from grpc._cython import cygrpc
from grpc.aio import _server as aio_server
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from penstock.access.places import SharedPlaces, holder_of
from penstock.access.principal import Peer, anonymous
from penstock.access.tls import ServerTls, TlsIdentity
from penstock.errors import AddressRefused, Error, GatewayBusy
from penstock.redaction import traced

from ..readiness import StoreProbe
from .door import peer_of
from .methods import refuse
from .problems import problem_of

try:
    import resource
except ImportError:  # Windows has neither the module nor the limit
    resource = None  # type: ignore[assignment]

from .administration import GROUPS, SCHEMAS, TOPICS
from .consume import CONSUMING
from .door import GrpcDoor
from .messages import PACKAGE, POOL, SERVICES
from .methods import admitted, handlers_of
from .publish import PUBLISHING

logger = logging.getLogger("penstock.gateway")

_OF_SERVICES: tuple[Mapping[str, Any], ...] = (PUBLISHING, CONSUMING, TOPICS, GROUPS, SCHEMAS)
METHODS = dict(zip(SERVICES, _OF_SERVICES, strict=True))
_GRACE_SECONDS = 1.0  # for calls in flight at the stop
_JOIN_SECONDS = 10.0
_HEAD_BYTES, _MOST_HEAD_BYTES = 16 * 1024, 32 * 1024
_HANDSHAKE_MS, _IDLE_MS, _KEEPALIVE_MS = 5_000, 300_000, 60_000
_MOST_CONNECTIONS, _LEAST_WINDOW = 1 << 20, 64 * 1024
_NOBODYS = "/"  # stands for a method whose path cannot be read
_REFLECTION = "/grpc.reflection."
_LOOK_SECONDS = 5.0  # between checks while a client watches
_STATUS = health_pb2.HealthCheckResponse


class _SteadyServer(cygrpc.AioServer):  # type: ignore[misc]
    """grpcio's server, hardened: no bytes in a call's head can end it or make it log a traceback.

    Newer versions decode the path of a call in the loop that accepts all calls: a path that is not UTF-8 ends
    that loop, and with it the door. They do not decode the paths of registered methods there. So this
    server's own loop accepts all other calls, and answers UNIMPLEMENTED without looking at the path.
    """

    def _make_request_call_future(self, method_bytes: bytes | None) -> Any:
        if method_bytes is not None:
            return super()._make_request_call_future(method_bytes)
        return asyncio.get_running_loop().create_task(self._take_unknown())

    async def _take_unknown(self) -> None:
        """Refuse calls of unregistered methods, until grpcio says that the server ends."""
        loop, running = asyncio.get_running_loop(), set[asyncio.Task[None]]()
        resolver = cygrpc._MethodResolver([], {})
        while True:
            state = await super()._request_call()
            refused = cygrpc._handle_rpc(_NOBODYS, resolver, (), state, loop, False)
            task = loop.create_task(cygrpc._schedule_rpc_coro(refused, state, loop, _NOBODYS))
            running.add(task)
            task.add_done_callback(running.discard)


def _made_server(*, interceptors: Sequence[Any], maximum_concurrent_rpcs: int, options: list[tuple[str, int]]) -> Any:
    """Return a server, as `grpc.aio.server` does; its services have to be registered."""
    made = grpc.aio.server(interceptors=interceptors, maximum_concurrent_rpcs=maximum_concurrent_rpcs, options=options)
    if hasattr(cygrpc.AioServer, "_make_request_call_future"):  # older ones decode it in the call
        given = aio_server._augment_channel_arguments(options, None)
        made._server = _SteadyServer(made._loop, None, (), interceptors, given, maximum_concurrent_rpcs)
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_not_of_metadata)
    return made


def _is_not_of_metadata(line: logging.LogRecord) -> bool:
    """Drop the line about client metadata that is not text: each would be a traceback."""
    return not str(line.msg).startswith("Invalid encoding")


class GrpcListener:
    """Listens from `start` to `stop`."""

    def __init__(self, door: GrpcDoor, host: str, port: int, *, tls: ServerTls | None = None) -> None:
        """`port` 0 picks a free one. `tls`: the identity of the port; none: no encryption."""
        self._door, self._host, self._port, self._tls = door, host, port, tls
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._bound: Future[int] = Future()

    @property
    def address(self) -> str:
        """The address it listens on, with the port that was picked."""
        return f"{_bracketed(self._host)}:{self._bound.result(0)}"

    def start(self) -> None:
        """Take the address and serve it; returns once it does. Raises AddressRefused."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="penstock-grpc", daemon=True)
            self._thread.start()
        self._bound.result()

    def stop(self) -> None:
        """Give the groups back, let calls end, and close the port."""
        self._door.give_back()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ending.set)
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        self._door.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Error as exc:
            self._bound.set_exception(exc)
        except Exception as exc:
            if not self._bound.done():
                self._bound.set_exception(exc)
            logger.error("nothing is served over gRPC any more; the rest goes on", exc_info=traced(exc))

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server, address = self._server(), f"{_bracketed(self._host)}:{self._port}"
        try:
            if self._tls is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, _credentials(self._tls))
        except RuntimeError as exc:
            raise AddressRefused(self._host, self._port, "it is in use, or not of this machine") from exc
        await server.start()
        self._bound.set_result(port)
        await self._ending.wait()
        await server.stop(_GRACE_SECONDS)

    def _server(self) -> Any:
        door, settings = self._door, self._door.settings
        most_calls = 2 * settings.connections  # including calls that only try to get in
        server = _made_server(
            interceptors=[_ReflectionLock(door)],
            maximum_concurrent_rpcs=most_calls,
            options=[
                ("grpc.max_receive_message_length", settings.body_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", _HEAD_BYTES),
                ("grpc.absolute_max_metadata_size", _MOST_HEAD_BYTES),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                ("grpc.max_connection_idle_ms", _IDLE_MS),
                ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
                ("grpc.max_allowed_incoming_connections", _most_connections()),
                # So much of a message comes before anybody asks for it; the probe of the line would widen that.
                ("grpc.http2.lookahead_bytes", max(_LEAST_WINDOW, settings.bodies_bytes // most_calls)),
                ("grpc.http2.bdp_probe", 0),
                ("grpc.so_reuseport", 0),  # another process on the same port is an error, not a rival
            ],
        )
        for name, methods in METHODS.items():
            server.add_registered_method_handlers(f"{PACKAGE}.{name}", handlers_of(door, name, methods))
        names = tuple(f"{PACKAGE}.{each}" for each in SERVICES)
        health_pb2_grpc.add_HealthServicer_to_server(Health(StoreProbe(door.store), names, door.watches), server)
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server, pool=POOL)
        return server


class _ReflectionLock(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Reflection needs a principal, too, like the description of REST, and holds a place of a call."""

    def __init__(self, door: GrpcDoor) -> None:
        self._door = door

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Pass a call of another service on."""
        handler = await continuation(details)
        if handler is None or not details.method.startswith(_REFLECTION):
            return handler

        async def locked(messages: Any, context: Any) -> None:
            try:
                with await admitted(self._door, context):
                    async for each in handler.stream_stream(messages, context):
                        await context.write(each)
            except Error as exc:
                await refuse(context, problem_of(exc))

        return handler._replace(stream_stream=locked)


def _most_connections() -> int:
    """Return how many connections to take: of silent ones grpcio tells nothing, and other doors need descriptors."""
    most = sys.maxsize if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST_CONNECTIONS if most < 0 else min(most * 3 // 4, _MOST_CONNECTIONS)


def _credentials(tls: ServerTls) -> Any:
    """Return credentials that follow the identity in force."""
    shown = tls.identity

    def configured(identity: TlsIdentity) -> Any:
        ca = identity.client_ca if identity.is_client_required else None
        return grpc.ssl_server_certificate_configuration([(identity.key, identity.certificate)], ca)

    def changed() -> Any:
        nonlocal shown
        before, shown = shown, tls.identity
        return None if shown is before else configured(shown)

    required = shown.client_ca is not None and shown.is_client_required
    return grpc.dynamic_ssl_server_credentials(configured(shown), changed, required)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


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
            most = self._places.most
            why = f"you have as many of {most} watches as one client may (a quarter of gateway.connections); end some"
            await refuse(context, problem_of(GatewayBusy(why)))
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
