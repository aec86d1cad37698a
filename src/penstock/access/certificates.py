"""Client certificates that TLS has verified: the principal's name in one, and the list of revoked ones.

OpenSSL checks the lists of the authorities (CRLs, RFC 5280) at every handshake (`tls.py`). This module covers
the rest: connections that are already open, and listeners that bring their own TLS. A list has an end, after
which it may lack certificates that were revoked since; from then on no certificate is accepted.
"""

import hashlib
import re
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from penstock.errors import InvalidCertificate, MissingExtra, Unauthenticated

from .principal import Peer, Principal, check_name

_PEM = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


class RevokedCertificates(NamedTuple):
    """The certificates that are no longer valid."""

    credentials: frozenset[str] = frozenset()
    ends: float | None = None  # seconds since 1970

    def why_not(self, credential: str, now: float) -> str:
        """Return why a certificate is not taken; empty if it is."""
        if self.ends is not None and now >= self.ends:
            return "the list of revoked certificates has run out, so no certificate is taken"
        return "the certificate is revoked" if credential in self.credentials else ""


def credential_of(certificate: Mapping[str, Any]) -> str:
    """Return a certificate's unique id: its authority and serial number, as `getpeercert()` names them."""
    issuer = [str(value) for part in certificate.get("issuer", ()) for _, value in part]
    return _credential(issuer, int(str(certificate.get("serialNumber") or "0"), 16))


def read_revoked(path: Path, authorities: bytes, now: float) -> RevokedCertificates:
    """Read a file of lists. Raises InvalidCertificate, MissingExtra.

    `authorities`: as PEM; a list issued by one of them must carry its signature.
    """
    try:
        from cryptography import x509
    except ImportError as exc:
        raise MissingExtra("a list of revoked certificates", "access") from exc
    try:
        held = path.read_bytes()
        lists = [x509.load_pem_x509_crl(each) for each in _PEM.findall(held)]
        known = x509.load_pem_x509_certificates(authorities)
    except OSError as exc:
        raise InvalidCertificate(str(path), exc.strerror or "it cannot be read") from None
    except ValueError:
        raise InvalidCertificate(str(path), "its list of revoked certificates cannot be read") from None
    if not lists:
        raise InvalidCertificate(
            str(path), "it holds no list of revoked certificates as PEM; make one of DER with: openssl crl -inform DER"
        )
    if b"-----BEGIN CERTIFICATE" in held:
        # OpenSSL would take it for one more authority.
        raise InvalidCertificate(str(path), "it holds a certificate beside its lists; leave that out")
    credentials: set[str] = set()
    for each in lists:
        if (why := _why_not(each, known, now)) is not None:
            raise InvalidCertificate(str(path), f"the list of {each.issuer.rfc4514_string()} {why}")
        issuer = [str(attribute.value) for attribute in each.issuer]
        credentials |= {_credential(issuer, entry.serial_number) for entry in each}
    ends = [each.next_update_utc.timestamp() for each in lists if each.next_update_utc is not None]
    return RevokedCertificates(frozenset(credentials), min(ends, default=None))


def _why_not(revoked: Any, authorities: Iterable[Any], now: float) -> str | None:
    begins, ends = revoked.last_update_utc, revoked.next_update_utc
    if ends is not None and ends.timestamp() <= now:
        return f"ran out at {ends:%Y-%m-%d %H:%M} UTC; fetch the current one from the authority"
    if begins.timestamp() > now:
        return f"holds from {begins:%Y-%m-%d %H:%M} UTC on; look at the clock of this machine"
    signers = [each for each in authorities if each.subject == revoked.issuer]
    if signers and not any(revoked.is_signature_valid(each.public_key()) for each in signers):
        return "is not signed by that authority; fetch it again"
    return None


def _credential(issuer: Iterable[str], number: int) -> str:
    # Not the kinds of its parts: libraries name those differently.
    said = "\0".join([*sorted(issuer), f"{number:x}"])
    return "certificate:" + hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]


FIELDS = ("cn", "dns", "uri", "email")
_SANS = {"dns": "DNS", "uri": "URI", "email": "email"}


class CertificateNames(NamedTuple):
    """The field of a certificate that holds the principal's name."""

    field: str = "cn"
    prefix: str = ""

    def principal(self, certificate: Mapping[str, Any], peer: Peer) -> Principal:
        """Return the principal of a certificate, as `getpeercert()` gives it. Raises Unauthenticated.

        Two names in the field are refused like none: one of them might belong to another client.
        """
        if self.field == "cn":
            subject = certificate.get("subject", ())
            names = [value for part in subject for key, value in part if key == "commonName"]
        else:
            names = [value for key, value in certificate.get("subjectAltName", ()) if key == _SANS[self.field]]
        if len(names) != 1:
            raise Unauthenticated(f"the certificate has {len(names)} names in the field {self.field}, not one")
        name = check_name(self.prefix + names[0])
        expires = expiry_of(certificate)
        return Principal(name, peer.address, "certificate", credential_of(certificate), expires, peer.door)


def expiry_of(certificate: Mapping[str, Any]) -> float | None:
    """Return when a certificate expires, in seconds since 1970, if it tells."""
    try:
        return float(ssl.cert_time_to_seconds(certificate["notAfter"]))
    except (KeyError, ValueError):
        return None


def certificate_of(pem: bytes) -> Mapping[str, Any]:
    """Return the fields of a certificate, as `getpeercert()` does, for doors whose TLS only gives its text.

    Raises MissingExtra, Unauthenticated.
    """
    try:
        from cryptography import x509
        from cryptography.x509.oid import NameOID
    except ImportError as exc:
        raise MissingExtra("client certificates over gRPC", "access") from exc
    try:
        read = x509.load_pem_x509_certificate(pem)
        names = [each.value for each in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        found = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        found = x509.SubjectAlternativeName([])
    except ValueError:
        raise Unauthenticated("the certificate cannot be read") from None
    sans = [("DNS", each) for each in found.get_values_for_type(x509.DNSName)]
    sans += [("URI", each) for each in found.get_values_for_type(x509.UniformResourceIdentifier)]
    sans += [("email", each) for each in found.get_values_for_type(x509.RFC822Name)]
    return {
        "subject": tuple((("commonName", str(each)),) for each in names),
        "issuer": tuple(((each.rfc4514_attribute_name, each.value),) for each in read.issuer),
        "serialNumber": f"{read.serial_number:X}",
        "subjectAltName": tuple(sans),
        "notAfter": read.not_valid_after_utc.strftime("%b %d %H:%M:%S %Y GMT"),
    }
