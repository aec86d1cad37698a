"""Logs failed TLS handshakes with a remedy: the client often sees only that the connection ends.

asyncio and uvloop hide the failure and the client's address, so each reason is logged at most once a minute,
whichever client it was.
"""

import logging
import ssl

from penstock.clock import SYSTEM, Clock

logger = logging.getLogger("penstock.access")

_QUIET_SECONDS = 60.0
_NOT_TLS = "it does not speak TLS; for a Kafka client set security.protocol=SSL or SASL_SSL, for others https"
_DISTRUSTED = (
    "it does not trust our certificate; give it the authority (ssl.ca.location), or connect by a name in it"
)
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
    """Logs failures. Safe from any thread: at worst a line appears twice."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}

    def failed(self, error: ssl.SSLError) -> None:
        """Log a failed handshake, unless the same reason was logged a short while ago."""
        code = getattr(error, "verify_code", 0)
        reason = _REVOKED.get(code) or error.reason or type(error).__name__
        now, last = self._clock.monotonic(), self._said.get(reason)
        if last is not None and now - last < _QUIET_SECONDS:
            return
        self._said[reason] = now
        remedy = _REMEDIES.get(reason, "look at what the client says")
        logger.warning(
            "the TLS handshake of a client failed (%s): %s", reason.lower().replace("_", " "), remedy
        )


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
