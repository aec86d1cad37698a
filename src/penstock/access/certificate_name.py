"""The principal's name in a client certificate that TLS has already verified."""

import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.errors import MissingExtra, Unauthenticated

from .principal import Peer, Principal, check_name
from .revocation import credential_of

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
            sans = certificate.get("subjectAltName", ())
            names = [value for key, value in sans if key == _SANS[self.field]]
        if len(names) != 1:
            raise Unauthenticated(
                f"the certificate has {len(names)} names in the field {self.field}, not one"
            )
        name = check_name(self.prefix + names[0])
        shown = credential_of(certificate)
        return Principal(name, peer.address, "certificate", shown, _expires(certificate), peer.door)


def _expires(certificate: Mapping[str, Any]) -> float | None:
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
    ends = read.not_valid_after_utc.strftime("%b %d %H:%M:%S %Y GMT")
    return {
        "subject": tuple((("commonName", str(each)),) for each in names),
        "issuer": tuple(((each.rfc4514_attribute_name, each.value),) for each in read.issuer),
        "serialNumber": f"{read.serial_number:X}",
        "subjectAltName": tuple(sans),
        "notAfter": ends,
    }
