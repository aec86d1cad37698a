"""One connection: requests in, answers out in the order of the requests, within bounds.

Requests are handled one after another, except that new writes go on to the log while earlier ones are still
in flight. While too much is in progress, or the client does not take its answers, nothing more is read. All
answers that are ready go out in one write.
"""

import asyncio
import logging
from collections import deque
from typing import Any, NamedTuple, Protocol

from penstock.access.access import Access
from penstock.access.logins import ScramLogin
from penstock.access.places import holder_of
from penstock.access.principal import ANONYMOUS, Peer, Principal, anonymous, is_loopback
from penstock.access.settings import AccessSettings
from penstock.clock import Clock
from penstock.errors import Error, InvalidRequest, Unauthenticated
from penstock.redaction import words
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.apis.records import PRODUCE
from penstock.wire.kafka.connection import KafkaRequest, RequestReader, answer_head
from penstock.wire.kafka.layout import Api

from .flow_control import FlowControl
from .measures import BrokerMeasures
from .settings import BrokerSettings

logger = logging.getLogger("penstock.broker")

DOOR = "kafka"
UNKNOWN_BYTES = 64 * 1024  # in a request of a client that is not known yet
_MOST_QUEUED = 100  # requests of a connection that wait for earlier ones
_MOST_BEGUN = 32  # requests of a connection in one step of the loop
_FEW, _SMALL = 2, 64 * 1024  # pieces and bytes of an answer that is sent as one piece
_SENT_BYTES = 1 << 20  # in one step of the loop: asyncio copies bytes that the client does not take at once


class Slot:
    """The place of one answer in the order of a connection. Filled once, in the loop's thread."""

    __slots__ = ("is_done", "pieces", "request", "session", "size")

    def __init__(self, session: "Session", request: KafkaRequest) -> None:
        self.session, self.request = session, request
        self.pieces: list[Buffer] = []
        self.size = 0
        self.is_done = False

    @property
    def api(self) -> Api:
        """The API of the request, which is known."""
        found = self.request.api
        assert found is not None
        return found

    def fill(self, pieces: list[Buffer], throttle_ms: int = 0) -> None:
        """Reply with these bytes, one after another."""
        request = self.request
        size = sum(len(each) for each in pieces)
        self.pieces = [answer_head(request.api, request.version, request.correlation_id, size), *pieces]
        self.size = size
        self.session.filled(self, throttle_ms)

    def fill_bare(self, data: bytes) -> None:
        """Reply with a head of the first version, whichever the request has."""
        self.pieces = [answer_head(None, 0, self.request.correlation_id, len(data)), data]
        self.session.filled(self)


class Login(NamedTuple):
    """The SASL exchange that a connection has begun: its mechanism, and the state of SCRAM."""

    mechanism: str
    scram: ScramLogin | None


class _SessionBroker(Protocol):
    """The broker, as far as a connection uses it."""

    settings: BrokerSettings
    access_settings: AccessSettings
    access: Access
    clock: Clock
    loop: asyncio.AbstractEventLoop
    flow: FlowControl
    measures: BrokerMeasures

    def admit(self, session: "Session") -> bool: ...
    def know(self, session: "Session", principal: Principal) -> bool: ...
    def dismiss(self, session: "Session") -> None: ...
    def begin(self, slot: Slot) -> None: ...


class Session(asyncio.BufferedProtocol):
    """The protocol of one connection. Lives in the loop's thread."""

    def __init__(self, broker: _SessionBroker) -> None:
        self._broker = broker
        self._connection = RequestReader(broker.settings.frame_bytes)
        self._transport: Any = None
        self._waiting: deque[KafkaRequest] = deque()
        self._slots: deque[Slot] = deque()
        self._bytes = 0  # of requests in progress
        self._owed = self._unsent = 0  # of answers that wait for earlier ones; that the client has to take
        self._outgoing: deque[Buffer] = deque()  # parts of answers that the transport has yet to be given
        self._sends_on = False  # soon, in another step
        self.full_since = 0.0
        self._only_produces = True
        self._receiving = 0  # bytes of room for a large request that is still incomplete
        self._flushing = self._paused = self._throttled = False
        self.is_full = False  # the client has yet to take an answer
        self._is_in_turn = False  # pending requests are being started; then answers are sent
        self.is_held_back = False  # until `go_on`: the last write is not with the log yet, and must not be overtaken
        self._goes_on_later = False
        self.peer = Peer(door=DOOR)
        self.holder = ""  # the holder that its bytes count for
        self.principal = anonymous(self.peer)
        self._certified: Principal | None = None  # of its certificate, whoever logs in later
        self.is_admitted = False  # whether its client is known, or need not be
        self.login: Login | None = None  # a SASL exchange in progress
        self.began = self.last_active = 0.0
        self.is_closed = self._is_ending = self._has_answered = False

    # -- called by asyncio

    def connection_made(self, transport: Any) -> None:
        """Register the connection, if there is room and its certificate, if any, is valid."""
        self._transport = transport
        name = transport.get_extra_info("peername")
        address = str(name[0]) if name else "local"
        private = transport.get_extra_info("sslcontext") is not None or address == "local" or is_loopback(address)
        self.peer = Peer(address, DOOR, private or self._broker.access_settings.secrets_in_plaintext)
        self.principal = anonymous(self.peer)
        self.began = self.last_active = self._broker.clock.monotonic()
        if not (self._broker.admit(self) and self._identify()):
            self._broker.dismiss(self)
            self.is_closed = True
            transport.abort()
            return
        # To be called back when all is taken. Not 0: over TLS an empty buffer would count as full.
        transport.set_write_buffer_limits(high=1, low=0)

    def _identify(self) -> bool:
        """Admit a client by certificate, or without one if allowed; return False for a wrong one."""
        access, certificate = self._broker.access, self._transport.get_extra_info("peercert")
        try:
            if certificate:
                self._certified = access.of_certificate(certificate, self.peer)
                return self.admit(self._certified)
            if access.admits_anonymous:
                return self.admit(self.principal)
            self._connection.max_bytes, self._connection.before_login = UNKNOWN_BYTES, True
        except Unauthenticated as exc:
            logger.info("connection of %s ended: %s", self.peer.address, words(exc))
            return False
        return True

    def admit(self, principal: Principal) -> bool:
        """Continue as a known client; return False if it holds too many connections."""
        if not self._broker.know(self, principal):
            return False
        before, self.holder = self.holder, holder_of(principal).name
        self._broker.flow.move(self, before, self._bytes, self._receiving)
        self.principal, self.is_admitted = principal, True
        self._connection.max_bytes = self._broker.settings.frame_bytes
        self._connection.before_login = False
        return True

    @property
    def is_valid(self) -> bool:
        """Whether all that was shown still holds."""
        holds = self._broker.access.holds
        return holds(self.principal) and (self._certified is None or holds(self._certified))

    def is_same(self, principal: Principal) -> bool:
        """Return whether a connection may continue as a principal: it stays with its first one."""
        known = self.is_admitted and self.principal.method not in (ANONYMOUS, "certificate")
        return not known or self.principal.name == principal.name

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop pending requests; writes already with the log are finished all the same."""
        self.is_closed = True
        self._connection = RequestReader(0)
        self._count_receiving()
        self._release(self._bytes)
        self._broker.flow.answer(-self._owed - self._unsent)
        self._owed = self._unsent = 0
        self._broker.dismiss(self)
        self._waiting.clear()
        self._slots.clear()
        self._outgoing.clear()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._connection.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the requests that are complete now."""
        self.last_active = self._broker.clock.monotonic()
        try:
            requests = self._connection.received(nbytes)
        except Error as exc:
            self.refuse(exc)
            return
        for each in requests:
            self._bytes += len(each.data)
            self._broker.flow.add(len(each.data), self.holder)
            self._waiting.append(each)
        self._count_receiving()
        self._is_in_turn = True
        self._go_on()
        self._is_in_turn = False
        if self._flushing:  # answers that are ready at once go out at once
            self._flush()
        else:
            self._regulate()

    def eof_received(self) -> bool:
        """Close when the client has."""
        return False

    def pause_writing(self) -> None:
        """Start no more requests while the client does not take its answers."""
        if not self._has_answered:
            return  # the buffer holds part of the TLS handshake, which goes out at the next read
        self.is_full = True
        self.full_since = self.full_since or self._broker.clock.monotonic()
        self._regulate()

    def resume_writing(self) -> None:
        """Resume: the client has taken everything."""
        self.is_full = False
        self._send()
        self._go_on()
        self._regulate()

    # -- work

    @property
    def is_within(self) -> bool:
        """Whether a part of a large request has arrived."""
        return bool(self._receiving)

    @property
    def pending(self) -> int:
        """How many answers are owed."""
        return len(self._slots) + len(self._waiting)

    def refuse(self, error: Error) -> None:
        """End the connection: its bytes cannot be parsed."""
        if not self.is_closed:
            self._broker.measures.refused += 1
            logger.info("connection of %s ended: %s", self.peer.address, words(error))
            self.close()

    def close(self) -> None:
        """Send the answers that are ready and end; later requests are not started."""
        self._is_ending = True
        self._flush()
        if self._transport is not None and not self._outgoing:
            self._transport.close()

    def abort(self) -> None:
        """End without waiting for the client."""
        if self._transport is not None:
            self._transport.abort()

    def filled(self, slot: Slot, throttle_ms: int = 0) -> None:
        """Send an answer once all before it are sent."""
        slot.is_done = True
        if self.is_closed:
            return
        if slot.size:
            self._owed += slot.size
            self._broker.flow.answer(slot.size)
        if throttle_ms:
            self._throttled = True
            self._broker.loop.call_later(throttle_ms / 1000, self._unthrottle)
        if not self._flushing:
            self._flushing = True
            if not self._is_in_turn:
                self._broker.loop.call_soon(self._flush)

    def regulate(self) -> None:
        """Pause or resume reading."""
        self._goes_on_later = False
        self._go_on()
        self._regulate()

    def go_on(self) -> None:
        """Start the requests that were held back."""
        self.is_held_back = False
        self.regulate()

    def _unthrottle(self) -> None:
        self._throttled = False
        self.regulate()

    def _go_on(self) -> None:
        begun = 0
        while self._waiting and not (
            self.is_full or self._throttled or self.is_held_back or self._is_ending or self.is_closed
        ):
            if begun == _MOST_BEGUN:
                if not self._goes_on_later:
                    self._goes_on_later = True
                    self._broker.loop.call_soon(self.regulate)
                return
            begun += 1
            request = self._waiting[0]
            is_produce = request.key == PRODUCE.key
            if self._slots and not (is_produce and self._only_produces):
                return
            self._waiting.popleft()
            slot = Slot(self, request)
            self._slots.append(slot)
            self._only_produces = is_produce  # other requests have a turn of their own
            try:
                self._broker.begin(slot)
            except InvalidRequest as exc:
                self.refuse(exc)

    def _flush(self) -> None:
        self._flushing = False
        pieces: list[Buffer] = []
        size = 0
        while self._slots and self._slots[0].is_done:
            slot = self._slots.popleft()
            pieces += slot.pieces
            size += len(slot.request.data)
            self._owed -= slot.size
            self._unsent += slot.size
        if pieces and not self.is_closed:
            self._has_answered = True
            if len(pieces) == _FEW and len(pieces[0]) + len(pieces[1]) < _SMALL:
                pieces = [bytes(pieces[0]) + pieces[1]]
            self._outgoing += pieces
            self._send()
        self._release(size)
        self._go_on()
        self._regulate()

    def _send(self) -> None:
        """Give the transport as much as it takes; a large amount in several steps."""
        outgoing = self._outgoing
        if outgoing and not (self.is_full or self._sends_on or self.is_closed):
            some: list[Buffer] = []
            left = _SENT_BYTES
            while outgoing and left > 0:
                piece = outgoing.popleft()
                if len(piece) > left:
                    view = memoryview(piece)
                    piece = view[:left]
                    outgoing.appendleft(view[left:])
                left -= len(piece)
                some.append(piece)
            self._transport.writelines(some)
            if outgoing and not self.is_full:
                self._sends_on = True
                self._broker.loop.call_soon(self._send_on)
        if outgoing or self.is_full:
            return
        self.full_since = 0.0
        if self._unsent:
            self._broker.flow.answer(-self._unsent)
            self._unsent = 0
        if self._is_ending:
            self._transport.close()

    def _send_on(self) -> None:
        self._sends_on = False
        self._send()

    def _release(self, size: int) -> None:
        if size:
            self._bytes -= size
            self._broker.flow.release(size, self.holder)

    def _count_receiving(self) -> None:
        if change := self._connection.large_bytes - self._receiving:
            self._receiving += change
            self._broker.flow.receive(self, change)

    def _regulate(self) -> None:
        """Stop reading while more is in progress than allowed, in this connection or in all."""
        if self.is_closed:
            return
        flow = self._broker.flow
        too_much = (
            self.is_full
            or self._throttled
            or self._is_ending
            or self._bytes > self._broker.settings.connection_bytes
            or len(self._waiting) > _MOST_QUEUED
            or not flow.may_send(self)
        )
        if too_much and not self._paused:
            self._paused = True
            self._transport.pause_reading()
            flow.waiting.add(self)
        elif not too_much and self._paused:
            self._paused = False
            self._transport.resume_reading()
            flow.waiting.discard(self)
