"""TLS for every listener: TLS 1.2 or later, and certificates that are renewed without a restart.

Each handshake checks the list of revoked client certificates. A listener keeps one context for its life; its identity
is in another, which `reload` replaces in one step: later handshakes use the new one, open connections keep theirs. A
broken file changes nothing. A key that every user of the machine may read is refused.
"""

import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from penstock import metrics
from penstock.clock import SYSTEM, Clock
from penstock.errors import InvalidAccessFile, InvalidCertificate

from .access_file import refuse_readable
from .certificates import RevokedCertificates, expiry_of, read_revoked

logger = logging.getLogger("penstock.access")

_QUIET_SECONDS = 60.0
_NOT_TLS = "it does not speak TLS; for a Kafka client set security.protocol=SSL or SASL_SSL, for others https"
_DISTRUSTED = "it does not trust our certificate; give it the authority (ssl.ca.location), or connect by a name in it"
_REVOKED = {23: "CERTIFICATE_REVOKED", 3: "NO_LIST_OF_REVOKED", 12: "LIST_OF_REVOKED_RAN_OUT"}  # of OpenSSL
_REMEDIES = {
    "CERTIFICATE_REVOKED": "access.tls_client_crl revokes its certificate; give it a new one",
    "NO_LIST_OF_REVOKED": "access.tls_client_crl has no list of the authority of its certificate; add "
    "that list to the file",
    "LIST_OF_REVOKED_RAN_OUT": "the list in access.tls_client_crl has run out; put the current one there",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate; give it one, or set "
    "access.client_certificates to optional, with which a password or token will do",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is of no authority in access.tls_client_ca, or has run out",
    "HTTP_REQUEST": _NOT_TLS,
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "UNSUPPORTED_PROTOCOL": "it speaks no TLS 1.2 or later; upgrade it",
    "TLSV1_ALERT_UNKNOWN_CA": _DISTRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _DISTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _DISTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "our certificate has run out; renew it",
}


class HandshakeLog:
    """Logs failed handshakes with a remedy: the client often sees only that the connection ends.

    asyncio and uvloop hide the failure and the client's address, so each reason is logged at most once a
    minute, whichever client it was. Safe from any thread: at worst a line appears twice.
    """

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}

    def failed(self, error: ssl.SSLError) -> None:
        """Log a failed handshake, unless the same reason was logged a short while ago."""
        reason = _REVOKED.get(getattr(error, "verify_code", 0)) or error.reason or type(error).__name__
        now, last = self._clock.monotonic(), self._said.get(reason)
        if last is not None and now - last < _QUIET_SECONDS:
            return
        self._said[reason] = now
        remedy = _REMEDIES.get(reason, "look at what the client says")
        logger.warning("the TLS handshake of a client failed (%s): %s", reason.lower().replace("_", " "), remedy)


class HandshakeContext(ssl.SSLContext):
    """An SSL context whose handshakes are watched."""

    handshakes: HandshakeLog


class WatchedHandshake(ssl.SSLObject):
    """A connection under a HandshakeContext."""

    def do_handshake(self) -> None:
        """Continue the handshake."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as exc:
            if isinstance(self.context, HandshakeContext):
                self.context.handshakes.failed(exc)
            raise


class TlsFiles(NamedTuple):
    """The files of one identity."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    is_client_required: bool = True
    client_crl: Path | None = None

    def paths(self) -> list[Path]:
        """Return every file."""
        return [each for each in (self.certificate, self.key, self.client_ca, self.client_crl) if each is not None]


class TlsIdentity(NamedTuple):
    """The contents of the files, for a listener that brings its own TLS."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None
    is_client_required: bool


class RenewableContext(ssl.SSLContext):
    """A context that uses the identity in force at every handshake; asyncio and uvloop need not know."""

    current: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a handshake with the identity in force."""
        return self.current.wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """Begin a handshake on a socket with the identity in force."""
        return self.current.wrap_socket(*args, **kwargs)


class ServerTls:
    """The identity of a process. `context` is for listeners; call `reload` when files have changed.

    `identity`: the same for a listener that brings its own TLS; another object after each change. `revoked`:
    the certificates that are no longer valid.
    """

    identity: TlsIdentity
    revoked: RevokedCertificates

    def __init__(self, files: TlsFiles, clock: Clock = SYSTEM) -> None:
        """Raises InvalidCertificate, MissingExtra."""
        self.files, self._clock = files, clock
        self._handshakes = HandshakeLog()
        self.context = RenewableContext(ssl.PROTOCOL_TLS_SERVER)
        self.reload()

    def reload(self) -> None:
        """Put the current files in force. Raises InvalidCertificate; then nothing has changed."""
        files, revoked = self.files, RevokedCertificates()
        _check_readable(files)
        ca = None if files.client_ca is None else files.client_ca.read_bytes()
        read = TlsIdentity(files.certificate.read_bytes(), files.key.read_bytes(), ca, files.is_client_required)
        if files.client_crl is not None:
            revoked = read_revoked(files.client_crl, ca or b"", self._clock.now_ms() / 1000)
        self.context.current, self.identity, self.revoked = self._loaded(), read, revoked
        if revoked.ends is not None:
            metrics.REVOCATION_EXPIRES.set(revoked.ends)

    def _loaded(self) -> ssl.SSLContext:
        files = self.files
        made = HandshakeContext(ssl.PROTOCOL_TLS_SERVER)
        made.handshakes, made.sslobject_class = self._handshakes, WatchedHandshake
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        with _named(files.certificate, "it fits no key"):
            made.load_cert_chain(files.certificate, files.key, password=_no_password)
        if files.client_ca is not None:
            with _named(files.client_ca, "it holds no authority"):
                made.load_verify_locations(files.client_ca)
            if files.client_crl is not None:
                with _named(files.client_crl, "it holds no list"):
                    made.load_verify_locations(files.client_crl)
                made.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
            required, optional = ssl.CERT_REQUIRED, ssl.CERT_OPTIONAL
            made.verify_mode = required if files.is_client_required else optional
        if (expires := certificate_expires(files.certificate)) is not None:
            metrics.CERTIFICATE_EXPIRES.set(expires)
        return made


def certificate_expires(path: Path) -> float | None:
    """Return when a certificate expires, in seconds since 1970, if the standard library can tell."""
    try:
        return expiry_of(ssl._ssl._test_decode_cert(str(path)))  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return None


def _check_readable(files: TlsFiles) -> None:
    for path in files.paths():
        if not os.access(path, os.R_OK):
            raise InvalidCertificate(str(path), "it cannot be read")
    try:
        refuse_readable(files.key)
    except InvalidAccessFile as exc:
        raise InvalidCertificate(str(files.key), str(exc).partition(": ")[2]) from None


@contextmanager
def _named(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "reason", None) or getattr(exc, "strerror", None)
        raise InvalidCertificate(str(path), f"{what}: {reason}" if reason else what) from None


def _no_password() -> str:
    raise ValueError("its key has a password")
