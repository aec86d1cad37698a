"""TLS for every listener: TLS 1.2 or later, and certificates that are renewed without a restart.

Each handshake checks the list of revoked client certificates. A listener keeps one context for its life; its
identity is in another, which `reload` replaces in one step: later handshakes use the new one, open
connections keep theirs. A broken file changes nothing. A key that every user of the machine may read is
refused.
"""

import os
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from penstock import metrics
from penstock.clock import SYSTEM, Clock
from penstock.errors import InvalidAccessFile, InvalidCertificate

from .access_file import refuse_readable
from .handshake import HandshakeContext, HandshakeLog, WatchedHandshake
from .revocation import RevokedCertificates, read_revoked


class TlsFiles(NamedTuple):
    """The files of one identity."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    is_client_required: bool = True
    client_crl: Path | None = None

    def paths(self) -> list[Path]:
        """Return every file."""
        named = (self.certificate, self.key, self.client_ca, self.client_crl)
        return [each for each in named if each is not None]


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
        read, revoked = self._read(), RevokedCertificates()
        if self.files.client_crl is not None:
            revoked = read_revoked(self.files.client_crl, read.client_ca or b"", self._clock.now_ms() / 1000)
        self.context.current, self.identity, self.revoked = self._loaded(), read, revoked
        if revoked.ends is not None:
            metrics.REVOCATION_EXPIRES.set(revoked.ends)

    def _read(self) -> TlsIdentity:
        files = self.files
        _check_readable(files)
        ca = None if files.client_ca is None else files.client_ca.read_bytes()
        certificate, key = files.certificate.read_bytes(), files.key.read_bytes()
        return TlsIdentity(certificate, key, ca, files.is_client_required)

    def _loaded(self) -> ssl.SSLContext:
        files = self.files
        made = HandshakeContext(ssl.PROTOCOL_TLS_SERVER)
        made.handshakes, made.sslobject_class = self._handshakes, WatchedHandshake
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        try:
            made.load_cert_chain(files.certificate, files.key, password=_no_password)
        except (OSError, ValueError) as exc:
            raise InvalidCertificate(str(files.certificate), _why(exc, "it fits no key")) from None
        if files.client_ca is not None:
            try:
                made.load_verify_locations(files.client_ca)
            except (OSError, ValueError) as exc:
                raise InvalidCertificate(str(files.client_ca), _why(exc, "it holds no authority")) from None
            if files.client_crl is not None:
                try:
                    made.load_verify_locations(files.client_crl)
                except (OSError, ValueError) as exc:
                    raise InvalidCertificate(str(files.client_crl), _why(exc, "it holds no list")) from None
                made.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
            required, optional = ssl.CERT_REQUIRED, ssl.CERT_OPTIONAL
            made.verify_mode = required if files.is_client_required else optional
        expires = certificate_expires(files.certificate)
        if expires is not None:
            metrics.CERTIFICATE_EXPIRES.set(expires)
        return made


def certificate_expires(path: Path) -> float | None:
    """Return when a certificate expires, in seconds since 1970, if the standard library can tell."""
    try:
        shown: dict[str, Any] = ssl._ssl._test_decode_cert(str(path))  # type: ignore[attr-defined]
        return float(ssl.cert_time_to_seconds(shown["notAfter"]))
    except (AttributeError, OSError, ValueError, KeyError):
        return None


def _check_readable(files: TlsFiles) -> None:
    for path in files.paths():
        if not os.access(path, os.R_OK):
            raise InvalidCertificate(str(path), "it cannot be read")
    try:
        refuse_readable(files.key)
    except InvalidAccessFile as exc:
        raise InvalidCertificate(str(files.key), str(exc).partition(": ")[2]) from None


def _why(error: Exception, what: str) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return f"{what}: {reason}" if reason else what


def _no_password() -> str:
    raise ValueError("its key has a password")
