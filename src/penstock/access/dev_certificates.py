"""Certificates to try TLS with: a private authority, a server's and clients'. Not for production.

| file                      | holds                                                                       |
|---------------------------|-----------------------------------------------------------------------------|
| `ca.pem`, `ca.key`        | the authority; kept if it exists, so clients need no new one                |
| `server.pem`, `server.key`| for localhost, 127.0.0.1, ::1 and the names given; made anew each time      |
| `NAME.pem`, `NAME.key`    | a client whose name is NAME; made anew each time                            |

Only the owner may read the keys. A file replaces another in one step, the key before the certificate.
"""

import os
from collections.abc import Sequence
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from penstock.clock import SYSTEM, Clock, from_ms
from penstock.errors import InvalidCertificate, InvalidInput, MissingExtra, Unauthenticated

from .principal import check_name

HOSTS = ("localhost", "127.0.0.1", "::1")
_DAYS = 30
_CA_DAYS = 365
_OTHER_USES = (
    *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("encipher_only", "decipher_only"),
)


class DevCertificates:
    """Makes certificates in a folder."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM) -> None:
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as exc:
            raise MissingExtra("making certificates", "access") from exc
        self._folder, self._now = folder, from_ms(clock.now_ms())
        # Untyped: the extra may be missing where types are checked.
        untyped: tuple[Any, ...] = x509, ec, hashes, serialization
        self._x509, self._keys, self._hashes, self._pem = untyped

    def make(self, clients: Sequence[str], hosts: Sequence[str] = ()) -> list[Path]:
        """Make the authority if it is missing, and server and clients anew; return the certificates.

        Raises InvalidInput, InvalidCertificate.
        """
        for name in clients:
            try:
                check_name(name)
            except Unauthenticated:
                raise InvalidInput(f"{name!r} is no name of a principal") from None
            if name in ("ca", "server") or "/" in name or name.startswith("."):
                raise InvalidInput(f"{name!r} cannot be the name of a file here")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = self._authority()
        self._issue(authority, "server", [*HOSTS, *hosts])
        for name in clients:
            self._issue(authority, name, [])
        return [self._folder / f"{name}.pem" for name in ("ca", "server", *clients)]

    def _authority(self) -> tuple[Any, Any]:
        certificate, key = self._folder / "ca.pem", self._folder / "ca.key"
        if certificate.exists() and key.exists():
            try:
                loaded = self._pem.load_pem_private_key(key.read_bytes(), None)
                return self._x509.load_pem_x509_certificate(certificate.read_bytes()), loaded
            except (OSError, ValueError) as exc:
                raise InvalidCertificate(str(certificate), f"it cannot be used again: {type(exc).__name__}") from None
        return self._made("ca", "Penstock development authority", _CA_DAYS, None, [])

    def _issue(self, authority: tuple[Any, Any], name: str, hosts: Sequence[str]) -> None:
        x509, purposes = self._x509, self._x509.oid.ExtendedKeyUsageOID
        extensions = [
            x509.ExtendedKeyUsage([purposes.SERVER_AUTH if hosts else purposes.CLIENT_AUTH]),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority[1].public_key()),
        ]
        if hosts:
            extensions.append(x509.SubjectAlternativeName([self._host(each) for each in hosts]))
        self._made(name, name, _DAYS, authority, extensions)

    def _made(
        self, file: str, common_name: str, days: int, authority: tuple[Any, Any] | None, extensions: Sequence[Any]
    ) -> tuple[Any, Any]:
        x509, pem, signs = self._x509, self._pem, authority is None
        key = self._keys.generate_private_key(self._keys.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, common_name)])
        uses = {"digital_signature": True, "key_cert_sign": signs, "crl_sign": signs}
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if authority is None else authority[0].subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(hours=1))
            .not_valid_after(self._now + timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
            .add_extension(x509.KeyUsage(**uses, **dict.fromkeys(_OTHER_USES, False)), critical=True)
        )
        for each in extensions:
            builder = builder.add_extension(each, critical=False)
        built = builder.sign(key if authority is None else authority[1], self._hashes.SHA256())
        private = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
        self._write(self._folder / f"{file}.key", private, 0o600)
        self._write(self._folder / f"{file}.pem", built.public_bytes(pem.Encoding.PEM), 0o644)
        return built, key

    def _host(self, host: str) -> Any:
        try:
            return self._x509.IPAddress(ip_address(host))
        except ValueError:
            return self._x509.DNSName(host)

    def _write(self, path: Path, data: bytes, mode: int) -> None:
        new = path.with_name(f".{path.name}.new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            os.write(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(new, path)
