"""SASL: a client authenticates, before any other request or again later.

| mechanism       | the client sends                                                                 |
|-----------------|----------------------------------------------------------------------------------|
| PLAIN           | `\\0NAME\\0PASSWORD`; only over a connection that is private                       |
| OAUTHBEARER     | `n,,\\x01auth=Bearer TOKEN\\x01\\x01`: a static token or a JWT; as PLAIN            |
| SCRAM-SHA-256/512 | the messages of `access.scram`                                                  |

A connection that has not authenticated, where that is required, may only ask for versions and authenticate;
any other request ends it. A failure is answered with one sentence, the same for an unknown name and a wrong
password, and the connection ends.
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from penstock.access.principal import Principal
from penstock.access.scram import MECHANISMS
from penstock.errors import Unauthenticated
from penstock.wire.kafka.apis.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from .core import BrokerCore
from .session import Login, Session, Slot

SASL_KEYS = (SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key)
_BEARER = re.compile(r"n,(?:a=([^,\x01]*))?,\x01((?:[A-Za-z]+=[^\x01]*\x01)+)\x01")
_SENDS_SECRETS = ("PLAIN", "OAUTHBEARER")
_THREADS = 2
_FORM = "the bytes are none of that mechanism"


class Sasl:
    """Answers SASL. Lives in the loop's thread; expensive work runs in threads of its own.

    Not in the threads that ask the store: any client may cause a hash, and known clients must go on meanwhile.
    """

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker
        self._threads = ThreadPoolExecutor(_THREADS, "penstock-login")

    def stop(self) -> None:
        """End its threads."""
        self._threads.shutdown()

    def begin(self, slot: Slot) -> None:
        """Answer a request. Raises InvalidRequest."""
        request = slot.request
        body = slot.api.decode_request(request.data, request.version, request.at)
        if request.key == SASL_HANDSHAKE.key:
            self._handshake(slot, body["mechanism"])
        else:
            self._broker.spawn(slot, self._authenticate(slot, body["auth_bytes"] or b""))

    def _handshake(self, slot: Slot, mechanism: str) -> None:
        session = slot.session
        is_private, names = session.peer.is_private, self._broker.access.mechanisms
        offered = [each for each in names if is_private or each not in _SENDS_SECRETS]
        number = E.NONE
        if slot.request.version < 1:  # its next bytes would not be framed as Kafka's requests are
            number = E.UNSUPPORTED_VERSION
        elif mechanism not in offered:
            number = E.UNSUPPORTED_SASL_MECHANISM
            self._broker.access.refuse("sasl", session.peer, "the mechanism is not offered here")
        else:
            scram = self._broker.access.scram(mechanism, session.peer) if mechanism in MECHANISMS else None
            session.login = Login(mechanism, scram)
        answer = {"error_code": int(number), "mechanisms": offered}
        slot.fill([SASL_HANDSHAKE.encode_answer(answer, slot.request.version)])

    async def _authenticate(self, slot: Slot, data: bytes) -> None:
        session, login = slot.session, slot.session.login
        if login is None:
            self._answer(slot, {"error_code": E.ILLEGAL_SASL_STATE, "error_message": "SaslHandshake first"})
            session.close()
            return
        try:
            await asyncio.sleep(self._wait(session, login, data))
            step = partial(self._step, session, login, data)
            principal, answer = await self._broker.loop.run_in_executor(self._threads, step)
            if principal is not None and not session.is_same(principal):
                raise Unauthenticated("a connection stays with who it belongs to")
        except Unauthenticated as exc:
            session.login = None
            self._answer(slot, {"error_code": E.SASL_AUTHENTICATION_FAILED, "error_message": str(exc)})
            session.close()
            return
        lifetime = 0
        if principal is not None:
            session.login = None
            if not session.admit(principal):  # no answer: to clients a failed login is final, this is not
                session.close()
                return
            if principal.expires is not None:
                lifetime = max(1, int(principal.expires * 1000) - self._broker.clock.now_ms())
        self._answer(slot, {"auth_bytes": answer, "session_lifetime_ms": lifetime})

    def _wait(self, session: Session, login: Login, data: bytes) -> float:
        """Return the seconds until a password may be tried: an address that fails often has to wait."""
        if login.scram is not None:
            return login.scram.wait_for_turn()
        if login.mechanism != "PLAIN":
            return 0.0
        return self._broker.access.wait_for_basic(*self._name_and_password(session, data), session.peer)

    def _step(self, session: Session, login: Login, data: bytes) -> tuple[Principal | None, bytes]:
        if login.scram is not None:
            answer = login.scram.step(data)
            return login.scram.principal, answer
        if login.mechanism != "PLAIN":
            return self._bearer(session, data), b""
        name, password = self._name_and_password(session, data)
        return self._broker.access.authenticate_basic(name, password, session.peer), b""

    def _name_and_password(self, session: Session, data: bytes) -> tuple[str, str]:
        parts = _text(data).split("\0")
        if len(parts) != 3 or parts[0] not in ("", parts[1]):
            raise self._broker.access.refuse("password", session.peer, _FORM)
        return parts[1], parts[2]

    def _bearer(self, session: Session, data: bytes) -> Principal:
        found = _BEARER.fullmatch(_text(data))
        pairs = dict(each.split("=", 1) for each in found[2].split("\x01") if each) if found else {}
        kind, _, token = pairs.get("auth", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise self._broker.access.refuse("bearer", session.peer, _FORM)
        principal = self._broker.access.authenticate_bearer(token, session.peer)
        if found is not None and found[1] and found[1] != principal.name:
            raise self._broker.access.refuse("bearer", session.peer, "nobody may act for somebody else")
        return principal

    def _answer(self, slot: Slot, message: Message) -> None:
        slot.fill([SASL_AUTHENTICATE.encode_answer(message, slot.request.version)])


def _text(data: bytes) -> str:
    """Decode a text; bytes that are not text are kept in escapes, and match nothing."""
    return data.decode("utf-8", "surrogateescape")
