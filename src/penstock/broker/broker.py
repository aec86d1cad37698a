"""The broker: listens, bounds its connections, and hands each request to its handler.

One thread runs the loop and owns all state of connections and groups; a pool runs the queries of the store,
the log's thread writes produced records. Any other thread may call `start` and `stop`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from ssl import SSLContext
from threading import Event, Thread, get_ident
from typing import Any

from penstock.access.access import Access
from penstock.access.places import ConnectionPlaces
from penstock.access.principal import Principal
from penstock.access.settings import AccessSettings
from penstock.clock import SYSTEM, Clock
from penstock.errors import Error, InvalidRequest, Unauthenticated
from penstock.log.batches import BatchLog
from penstock.log.store import Store
from penstock.redaction import traced
from penstock.sockets import ListeningPort, new_loop
from penstock.wire.kafka.apis.cluster import API_VERSIONS
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.layout import Message
from penstock.wire.kafka.stepwise import decode_request, encode_answer

from .acls import Acls
from .call import Administration, ClientCall, Refused, Reply, RequestHandler
from .coordinator import Coordinator
from .core import BrokerCore
from .error_codes import number_of
from .fetch import FetchHandler
from .group_admin import GroupAdmin
from .group_offsets import GroupOffsets
from .metadata import ClusterMetadata
from .process import Descriptors
from .produce import ProduceHandler
from .retention import RetentionTask
from .sasl import SASL_KEYS, Sasl
from .session import Session, Slot
from .settings import BrokerSettings
from .topic_admin import TopicAdmin
from .transactions import TransactionHandler

logger = logging.getLogger("penstock.broker")

_FOR_ALL = (API_VERSIONS.key, *SASL_KEYS)  # requests open to clients that are not known yet
_LONG_BYTES = 4096  # a longer request may hold a long list
_LONG_ANSWER = 256  # elements
_TICK_SECONDS, _LOOK_SECONDS = 0.1, 1.0
_STOP_SECONDS = 5.0
_TIMEOUT_SECONDS = 10.0  # for a client to take an answer, while room is short


class Broker(BrokerCore, ListeningPort):
    """Serves one store on one address, between `start` and `stop`."""

    _backlog = 1024

    def __init__(
        self,
        store: Store,
        batches: BatchLog,
        administration: Administration,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised: tuple[str, int] | None = None,
        settings: BrokerSettings | None = None,
        access: Access | None = None,
        access_settings: AccessSettings | None = None,
        tls: SSLContext | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        ListeningPort.__init__(self, host, port)
        settings, access = settings or BrokerSettings.load(), access or Access()
        BrokerCore.__init__(self, store, batches, administration, settings, access, clock)
        self.access_settings = access_settings or AccessSettings.load()
        self._tls, self._advertised = tls, advertised
        self._ready, self._failure = Event(), list[BaseException]()
        self._stops: list[Callable[[], object]] = []
        self.sessions: set[Session] = set()
        self._places = ConnectionPlaces[Session](settings.connections, Session.abort)
        self.fetches, self.produces = FetchHandler(self), ProduceHandler(self)
        self.metadata, self.sasl = ClusterMetadata(self), Sasl(self)
        self.groups = Coordinator(self)
        RetentionTask(self)
        offsets = GroupOffsets(self, self.groups)
        self.handlers: dict[int, RequestHandler] = {
            **self.metadata.handlers,
            **self.groups.handlers,
            **TopicAdmin(self).handlers,
            **Acls(self).handlers,
            **offsets.handlers,
            **TransactionHandler(self, self.groups, offsets).handlers,
            **GroupAdmin(self, self.groups).handlers,
        }

    # -- for callers outside

    def start(self) -> None:
        """Start to serve; returns once it does. Raises AddressRefused, and the store's errors."""
        if self._socket is None:
            self.open()
        self.topics.refresh()
        self._thread = Thread(target=self._run, name="penstock-kafka", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure:
            raise self._failure[0]

    def stop(self) -> None:
        """Stop: answer waiting fetches, notify groups, finish the writes."""
        if self._thread is None:
            return
        self.call_soon(self._begin_stop)
        self._thread.join(_STOP_SECONDS * 2)
        self._thread = None
        for stop in self._stops:
            stop()
        self._pool.shutdown(wait=True)
        self.sasl.stop()
        self.cluster.stop()

    # -- connections

    def admit(self, session: Session) -> bool:
        """Count a connection, if there is room for one more."""
        if self.is_stopping or not self._places.enter(session, session.peer.address):
            self._refuse(session)
            return False
        self.sessions.add(session)
        return True

    def know(self, session: Session, principal: Principal) -> bool:
        """Set the principal of a connection; return False if it has too many, so that it must end."""
        if self._places.know(session, principal):
            return True
        self._refuse(session)
        return False

    def _refuse(self, session: Session) -> None:
        self.measures.refused += 1
        if not self.is_stopping:
            refused = "a connection of %s is refused: it holds its share of broker.connections"
            logger.warning(refused, session.peer.address)

    def dismiss(self, session: Session) -> None:
        """Forget a connection."""
        self.flow.leave(session)
        self.sessions.discard(session)
        self._places.leave(session)

    # -- requests

    def begin(self, slot: Slot) -> None:
        """Begin to answer a request. Raises InvalidRequest."""
        request, session = slot.request, slot.session
        self.measures.requests[request.key] += 1
        self.slices.begin()
        if not session.is_admitted and request.key not in _FOR_ALL:
            session.refuse(self.access.refuse("nothing", session.peer, "nothing was shown before a request"))
        elif not request.is_served:
            self._refuse_version(slot)
        elif request.key == PRODUCE.key:
            self.produces.begin(slot)
        elif request.key == FETCH.key:
            self.fetches.begin(slot)
        elif request.key in SASL_KEYS:
            self.sasl.begin(slot)
        else:
            self._call(slot)

    def _call(self, slot: Slot) -> None:
        request = slot.request
        if len(request.data) <= _LONG_BYTES:
            self._handle(slot, slot.api.decode_request(request.data, request.version, request.at))
        else:
            self.spawn(slot, self._call_in_slices(slot))

    async def _call_in_slices(self, slot: Slot) -> None:
        request = slot.request
        self._handle(slot, await self.slices.run(decode_request(slot.api, request.data, request.version, request.at)))

    def _handle(self, slot: Slot, body: Message) -> None:
        request = slot.request
        call = ClientCall(slot.session.principal, request.client_id, request.version, body, self.access, self.slices)
        try:
            answer = self.handlers[request.key](call)
        except (Error, Refused) as exc:
            self._fail(slot, exc)
            return
        if isinstance(answer, dict | bytes):
            self._fill(slot, answer)
        else:
            self.spawn(slot, self._finish(slot, answer))

    def _fill(self, slot: Slot, answer: Reply) -> None:
        if isinstance(answer, bytes):
            slot.fill([answer])
        elif _is_long(answer):
            self.spawn(slot, self._fill_in_slices(slot, answer))
        else:
            slot.fill([slot.api.encode_answer(answer, slot.request.version)])

    async def _fill_in_slices(self, slot: Slot, answer: Message) -> None:
        slot.fill([await self.slices.run(encode_answer(slot.api, answer, slot.request.version))])

    async def _finish(self, slot: Slot, answer: Awaitable[Reply]) -> None:
        try:
            message = await answer
        except InvalidRequest:
            raise
        except (Error, Refused) as exc:
            self._fail(slot, exc)
        else:
            self._fill(slot, message)

    def _fail(self, slot: Slot, error: Error | Refused) -> None:
        """Reply with an error if the answer has a field for one; else end the connection."""
        api, version = slot.api, slot.request.version
        if any(field.name == "error_code" and field.is_in(version) for field in api.answer):
            answer = {"error_code": number_of(error, api.key, version), "error_message": str(error)}
            slot.fill([api.encode_answer(answer, version)])
        else:
            self.failed(slot, error)

    def _refuse_version(self, slot: Slot) -> None:
        """Answer an unsupported version: ApiVersions with those supported, in version 0; else a number."""
        number = int(ErrorNumber.UNSUPPORTED_VERSION)
        if slot.request.key == API_VERSIONS.key:
            answer = {"error_code": number, "api_keys": self.metadata.own_versions()}
            slot.fill_bare(API_VERSIONS.encode_answer(answer, 0))
        else:
            slot.fill_bare(number.to_bytes(2, "big"))

    # -- the loop

    def _run(self) -> None:
        try:
            self.loop, self.loop_thread = new_loop(), get_ident()
            asyncio.set_event_loop(self.loop)
            self.loop.run_until_complete(self._serve())
        except BaseException as exc:
            self._failure.append(exc)
            if self._ready.is_set():
                logger.error("the Kafka port has ended", exc_info=traced(exc))
        finally:
            self._ready.set()
            self.loop.close()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        assert self._socket is not None
        host, port = self._advertised or self._socket.getsockname()[:2]
        await self.run(lambda: self.cluster.start(host, port))
        self._stops.append(self.batches.watch(self.fetches.moved))
        self._stops.append(self.access.watch(lambda: self.call_soon(self.fetches.wake_all)))
        login = self.access_settings.login_wait.total_seconds()
        waits: dict[str, Any] = (
            {"ssl_handshake_timeout": login, "ssl_shutdown_timeout": _STOP_SECONDS} if self._tls else {}
        )
        server = await self.loop.create_server(lambda: Session(self), sock=self._socket, ssl=self._tls, **waits)
        ticking = self.loop.create_task(self._tick())
        self._ready.set()
        await self._stopped.wait()
        server.close()
        ticking.cancel()
        end = self.clock.monotonic() + _STOP_SECONDS
        while any(each.pending for each in self.sessions) and self.clock.monotonic() < end:
            await asyncio.sleep(0.01)  # requests in progress are answered and sent
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_STOP_SECONDS)
            for task in late:
                task.cancel()
        for session in tuple(self.sessions):
            session.close()
        await asyncio.sleep(0)
        for session in tuple(self.sessions):
            session.abort()
        await server.wait_closed()
        self.measures.forget()

    def _begin_stop(self) -> None:
        self.is_stopping = True
        for tick in self.ticks:
            tick()
        self.fetches.wake_all()
        self._stopped.set()

    async def _tick(self) -> None:
        looked, descriptors = self.clock.monotonic(), Descriptors(self.clock)
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            for tick in self.ticks:
                tick()
            now = self.clock.monotonic()
            if now - looked >= _LOOK_SECONDS:
                looked = now
                self.look_for_topics()
                self._close_idle(now)
                self._make_room(now)
                self.measures.tell(len(self.sessions))
                self._close_unknown(now)
                descriptors.look()

    def _close_idle(self, now: float) -> None:
        longest = self.settings.idle.total_seconds()
        for session in [each for each in self.sessions if now - each.last_active > longest]:
            if session.is_full:
                session.abort()
            elif not session.pending:
                session.close()

    def _make_room(self, now: float) -> None:
        """End the connections that have longest not taken an answer, while room is short."""
        for session in sorted((each for each in self.sessions if each.is_full), key=lambda each: each.full_since):
            if not self.flow.is_short or now - session.full_since < _TIMEOUT_SECONDS:
                return
            self.measures.refused += 1
            logger.warning("connection of %s ended: it does not take its answers", session.principal.address)
            session.abort()

    def _close_unknown(self, now: float) -> None:
        """End connections that have not authenticated in time, or whose credential is no longer valid."""
        longest = self.access_settings.login_wait.total_seconds()
        for session in tuple(self.sessions):
            if session.is_admitted:
                if not session.is_valid:
                    session.refuse(Unauthenticated("the credential has expired or was revoked"))
            elif now - session.began > longest:
                session.refuse(Unauthenticated("nothing was shown in time"))


def _is_long(answer: Message) -> bool:
    left, unseen = _LONG_ANSWER, [answer]
    while unseen and left > 0:
        for value in unseen.pop().values():
            if isinstance(value, list | tuple):
                left -= len(value)
                unseen += [each for each in value[: max(left, 0)] if isinstance(each, dict)]
    return left <= 0
