"""The broker: listens, bounds its connections, and hands each request to its handler.

One thread runs the loop and owns all state of connections and groups; a pool runs the queries of the store,
the log's thread writes produced records. Any other thread may call `start` and `stop`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from ssl import SSLContext
from threading import Event, Thread, get_ident
from typing import Any, TypeVar

from penstock.access.access import Access
from penstock.access.places import ConnectionPlaces
from penstock.access.principal import Principal
from penstock.access.rate_limits import RateLimit, RateLimiter
from penstock.access.settings import AccessSettings
from penstock.clock import SYSTEM, Clock, cpu_seconds
from penstock.errors import Error, InvalidRequest, Unauthenticated
from penstock.log.batches import BatchLog
from penstock.log.sql.lock_waits import LockWaits
from penstock.log.store import Store
from penstock.redaction import traced
from penstock.sockets import ListeningPort, new_loop
from penstock.wire.kafka.apis.cluster import API_VERSIONS
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.layout import Message
from penstock.wire.kafka.stepwise import CodecSteps, decode_request, encode_answer

from .acls import Acls
from .call import Administration, ClientCall, Refused, Reply, RequestHandler
from .cluster import Cluster, Topics
from .coordinator import Coordinator
from .error_codes import number_of
from .fetch import FetchHandler
from .flow_control import FlowControl
from .group_admin import GroupAdmin, GroupOffsets
from .measures import BrokerMeasures
from .metadata import ClusterMetadata
from .process import Descriptors
from .produce import ProduceHandler
from .retention import RetentionTask
from .sasl import KEYS as SASL_KEYS
from .sasl import Sasl
from .session import Session, Slot
from .settings import BrokerSettings
from .slices import SLICE_SECONDS, Slices
from .topic_admin import TopicAdmin
from .transactions import TransactionHandler

logger = logging.getLogger("penstock.broker")
T = TypeVar("T")

_FOR_ALL = (API_VERSIONS.key, *SASL_KEYS)  # requests open to clients that are not known yet
_LONG_BYTES = 4096  # a longer request may hold a long list
_LONG_ANSWER = 256  # elements
_TICK_SECONDS = 0.1
_LOOK_SECONDS = 1.0
_STOP_SECONDS = 5.0
_TIMEOUT_SECONDS = 10.0  # for a client to take an answer, while room is short


class Broker(ListeningPort):
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
        super().__init__(host, port)
        self.store, self.batches, self.clock = store, batches, clock
        self.settings = settings or BrokerSettings.load()
        self.access, self._tls = access or Access(), tls
        self.access_settings = access_settings or AccessSettings.load()
        self.administration = administration
        self.topics = Topics(store.log, store.bounds, clock)
        self.cluster = Cluster(store, clock, lambda: self.metadata.forget())
        self.produce_quota = _quota(self.settings.produce_bytes_per_second, clock)
        self.fetch_quota = _quota(self.settings.fetch_bytes_per_second, clock)
        self._advertised = advertised
        self._ready, self._failure = Event(), list[BaseException]()
        self.sessions: set[Session] = set()
        self.flow = FlowControl(self.settings.total_bytes, lambda work: self.loop.call_soon(work))
        self._places = ConnectionPlaces[Session](self.settings.connections, Session.abort)
        self.slices = Slices(clock)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pool = ThreadPoolExecutor(self.settings.threads, "penstock-broker")
        self.lock_waits = LockWaits(store.database, self._pool)
        self.is_stopping = False
        self._looking = False
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_called = False
        self.loop_thread = 0
        self.measures = BrokerMeasures(self)
        self.fetches, self.produces = FetchHandler(self), ProduceHandler(self)
        self.metadata, self.sasl = ClusterMetadata(self), Sasl(self)
        self.ticks: list[Callable[[], None]] = []
        self._stops: list[Callable[[], object]] = []
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

    # -- for handlers

    def call_soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the loop's thread, from any thread; do nothing once the loop has ended."""
        self._calls.append((function, arguments))
        if self._is_called:
            return
        self._is_called = True
        try:
            self.loop.call_soon_threadsafe(self._run_calls)
        except RuntimeError:
            logger.debug("the loop has ended before an answer was ready")

    def _run_calls(self) -> None:
        """Run the calls that other threads have queued; one wake-up serves them all."""
        self._is_called = False
        began = cpu_seconds()
        for _ in range(len(self._calls)):
            if cpu_seconds() - began >= SLICE_SECONDS:
                self._is_called = True
                self.loop.call_soon(self._run_calls)
                return
            function, arguments = self._calls.popleft()
            try:
                function(*arguments)
            except Exception as exc:
                logger.error("something for the loop of the Kafka port failed", exc_info=traced(exc))

    async def run(self, work: Callable[[], T]) -> T:
        """Run a query of the store in a thread of the pool."""
        found = await self.loop.run_in_executor(self._pool, work)
        self.slices.go_on()
        return found

    def spawn(self, slot: Slot | None, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine that answers later; an exception ends the connection."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(slot, done))

    def work(self, slot: Slot, steps: CodecSteps[None]) -> None:
        """Run the steps of a request: those that fit into its slice now, the rest in turns."""
        if self.slices.at_once(steps) is None:
            self.spawn(slot, self.slices.run(steps))

    def look_for_topics(self) -> None:
        """Look for new topics soon; concurrent calls share a look."""
        if not self._looking:
            self._looking = True
            self.spawn(None, self._refresh())

    async def refresh_topics(self) -> None:
        """Look for new topics now."""
        await self.run(self.topics.refresh)
        self.fetches.ends.forget(self.topics.by_id)

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

    def charge(self, slot: Slot, quota: RateLimiter, size: int, sizes: Mapping[str, int]) -> int:
        """Charge bytes to a client id, and bytes of topics to a principal.

        Return how many milliseconds the client has to wait.
        """
        waits = [quota.charge(slot.request.client_id, "", size)]
        if self.access.has_limits:
            # Enough buckets of made-up names would evict the full one.
            known = (each for each in sizes.items() if each[0] in self.topics.by_name)
            waits += [self.access.charge(slot.session.principal, *each) for each in known]
        throttle_ms = int(max(waits) * 1000)
        self.measures.throttled_ms += throttle_ms
        return throttle_ms

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

    def _ended(self, slot: Slot | None, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed(slot, error)

    def failed(self, slot: Slot | None, error: BaseException) -> None:
        """End the connection of a request that cannot be answered."""
        if not isinstance(error, Error):
            logger.error("a request failed", exc_info=traced(error))
        if slot is not None:
            slot.session.refuse(error if isinstance(error, Error) else Error("a request failed"))

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
                self.measures.tell()
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

    async def _refresh(self) -> None:
        try:
            await self.run(self.topics.refresh)
        except Error as exc:
            logger.debug("topics were not read: %s", exc)
        finally:
            self._looking = False


def _quota(bytes_per_second: int, clock: Clock) -> RateLimiter:
    """Return the limit of each client id; 0 is none."""
    return RateLimiter((RateLimit("*", "*", bytes_per_second),) if bytes_per_second else (), clock)


def _is_long(answer: Message) -> bool:
    left, unseen = _LONG_ANSWER, [answer]
    while unseen and left > 0:
        for value in unseen.pop().values():
            if isinstance(value, list | tuple):
                left -= len(value)
                unseen += [each for each in value[: max(left, 0)] if isinstance(each, dict)]
    return left <= 0
