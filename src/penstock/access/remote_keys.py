"""The public keys of tokens behind a URL (JWKS) in the access file: fetched by a thread, and cached.

| when                                          | then                                           |
|-----------------------------------------------|------------------------------------------------|
| they are older than `refresh_seconds`         | the thread fetches them                        |
| a token names a key that is not among them    | it fetches them, at most once in ten seconds   |
| fetching fails                                | the old keys stay valid, up to `stale_seconds` |
| fetching has failed for `stale_seconds`       | no token is valid until it succeeds            |

Only the host of the URL is ever asked, directly: an address in a token is ignored, a redirect is refused, and
no proxy of the environment is used. Bytes, keys and time of an answer are bounded. No request waits for it.
"""

import http.client
import logging
import socket
import ssl
from contextlib import suppress
from functools import partial
from threading import Event, Thread, Timer
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from penstock.clock import SYSTEM, Clock
from penstock.redaction import traced

from .json_web_token import JwtRules, JwtVerifier, TokenKeys, public_keys, pyjwt
from .principal import is_loopback

logger = logging.getLogger("penstock.access")

REFRESH_SECONDS, STALE_SECONDS = 300.0, 3600.0
SOONEST_SECONDS = 10.0  # between two fetches, whatever tokens ask for
MOST_BYTES = 256 * 1024
_WAIT_SECONDS, _FETCH_SECONDS = 5.0, 10.0
_LOOK_SECONDS, _JOIN_SECONDS = 0.5, 5.0


class KeysUrl(NamedTuple):
    """The URL of the keys, and how long they stay valid."""

    url: str
    authority: str = ""  # PEM of the authorities to trust there; empty: those of the system
    refresh_seconds: float = REFRESH_SECONDS
    stale_seconds: float = STALE_SECONDS


class LookThread:
    """Calls `look` again and again in a thread of its own, between `start` and `stop`."""

    def __init__(self, name: str, look_seconds: float, failed: str) -> None:
        """`failed`: what the log says of a defect."""
        self._name, self._look_seconds, self._failed = name, look_seconds, failed
        self._stopped = Event()
        self._thread: Thread | None = None

    def look(self) -> None:
        """Look once, in the caller's thread."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the thread."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None

    def _run(self) -> None:
        while not self._stopped.wait(self._look_seconds):
            try:
                self.look()
            except Exception as exc:
                logger.error(self._failed, exc_info=traced(exc))


class RemoteKeys(LookThread):
    """The keys behind one URL. `look` fetches them in the caller's thread; `start` keeps them up to date."""

    def __init__(self, rules: JwtRules, at: KeysUrl, clock: Clock = SYSTEM) -> None:
        """Raises ValueError, MissingExtra."""
        pyjwt()
        super().__init__("penstock-keys", _LOOK_SECONDS, "a look at the keys of tokens failed")
        self.rules, self.at = rules, at
        self._url, self._clock = _checked(at.url), clock
        self._tls = _tls(at.authority) if self._url.scheme == "https" else None
        self._keys: TokenKeys = {}
        self._fetched: float | None = None  # time of the last success
        self._tried: float | None = None
        self._failure = ""
        self._wanted = Event()
        self.verifier = JwtVerifier(rules, self._in_force, self._wanted.set)

    @property
    def failure(self) -> str:
        """Why the last fetch failed; empty if it succeeded."""
        if not self._failure:
            return ""
        then = "those of before hold for now" if self._in_force() else "no token holds until they are there"
        return f"the keys at jwks_url ({self._url.hostname}) were not fetched, {self._failure}; {then}"

    def _in_force(self) -> TokenKeys:
        """Return the keys that hold now: those that are too old do not, even while a fetch takes its time."""
        fetched = self._fetched
        is_stale = fetched is None or self._clock.monotonic() - fetched > self.at.stale_seconds
        return {} if is_stale else self._keys

    def look(self) -> None:
        """Fetch the keys if it is time."""
        if not self._is_due(self._clock.monotonic()):
            return
        self._wanted.clear()
        try:
            found = public_keys(self.rules, self._fetch())
        except (OSError, http.client.HTTPException, ValueError) as exc:
            self._failure = _why(exc)
        else:
            self._keys, self._fetched, self._failure = found, self._clock.monotonic(), ""
        self._tried = self._clock.monotonic()

    def _is_due(self, now: float) -> bool:
        if self._tried is None:
            return True
        hurries = bool(self._failure) or self._wanted.is_set()
        return now - self._tried >= (SOONEST_SECONDS if hurries else self.at.refresh_seconds)

    def _fetch(self) -> str:
        kind = http.client.HTTPConnection if self._tls is None else http.client.HTTPSConnection
        connection = kind(self._url.hostname or "", self._url.port)
        end = socket.create_connection((connection.host, connection.port), _WAIT_SECONDS)
        if self._tls is not None:
            end = self._tls.wrap_socket(end, server_hostname=connection.host, do_handshake_on_connect=False)
        connection.sock = end
        late = Timer(_FETCH_SECONDS, partial(_cut, end))  # however slowly the bytes come
        late.daemon = True
        late.start()
        try:
            if isinstance(end, ssl.SSLSocket):
                end.do_handshake()
            path = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
            connection.request("GET", path, headers={"Accept": "application/json", "User-Agent": "penstock"})
            answer = connection.getresponse()
            if 300 <= answer.status < 400:
                raise ValueError(f"it leads elsewhere ({answer.status}): name the address where the keys are")
            if answer.status != 200:
                raise ValueError(f"it answered {answer.status}")
            held = answer.read(MOST_BYTES + 1)
            if len(held) > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES} bytes")
            return held.decode()
        finally:
            late.cancel()
            connection.close()


def _checked(url: str) -> SplitResult:
    """Return the parts of a URL that keys may come from. Raises ValueError, which never quotes it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("jwks_url is no URL") from None
    if parts.scheme not in ("https", "http") or not host or not url.isascii() or not url.isprintable():
        raise ValueError("jwks_url is no URL: https://HOST/PATH")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("jwks_url has a host and a path alone: no name, password or #fragment")
    if parts.scheme == "http" and not (is_loopback(host) or host == "localhost"):
        raise ValueError("jwks_url is https, or http on this machine; on the way anybody could change it")
    return parts


def _tls(authority: str) -> ssl.SSLContext:
    try:
        made = ssl.create_default_context(cadata=authority or None)
    except (ssl.SSLError, ValueError):
        raise ValueError("jwks_ca holds no authority as PEM") from None
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    return made


def _cut(end: socket.socket) -> None:
    """End a socket, whatever it waits for. The connection drops it when an answer is the last one."""
    with suppress(OSError):  # it has ended by then
        socket.socket.shutdown(end, socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}; name its authority as jwks_ca"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    if isinstance(error, ValueError) and not isinstance(error, UnicodeError):
        return str(error)
    return f"what it answers is no JWKS document ({type(error).__name__})"
