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
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from penstock.clock import SYSTEM, Clock
from penstock.errors import InvalidCertificate, InvalidInput, MissingExtra, Unauthenticated

from .principal import check_name

HOSTS = ("localhost", "127.0.0.1", "::1")
_DAYS = 30
_CA_DAYS = 365


class DevCertificates:
    """Makes certificates in a folder."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM) -> None:
        self._folder = folder
        self._now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        self._x509, self._keys, self._hashes, self._pem = _cryptography()

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
        made = [self._issue(authority, "server", "server", [*HOSTS, *hosts])]
        made += [self._issue(authority, name, name, []) for name in clients]
        return [self._folder / "ca.pem", *made]

    def _authority(self) -> tuple[Any, Any]:
        certificate, key = self._folder / "ca.pem", self._folder / "ca.key"
        if certificate.exists() and key.exists():
            try:
                loaded = self._pem.load_pem_private_key(key.read_bytes(), None)
                return self._x509.load_pem_x509_certificate(certificate.read_bytes()), loaded
            except (OSError, ValueError) as exc:
                why = f"it cannot be used again: {type(exc).__name__}"
                raise InvalidCertificate(str(certificate), why) from None
        x509, private = self._x509, self._new_key()
        name = self._name("Penstock development authority")
        built = (
            self._builder(name, name, private, _CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(self._usage(signs=True), critical=True)
            .sign(private, self._hashes.SHA256())
        )
        self._write(key, self._key_bytes(private), 0o600)
        self._write(certificate, built.public_bytes(self._pem.Encoding.PEM), 0o644)
        return built, private

    def _issue(self, authority: tuple[Any, Any], file: str, common_name: str, hosts: Sequence[str]) -> Path:
        x509, (issuer, issuer_key), private = self._x509, authority, self._new_key()
        purposes = x509.oid.ExtendedKeyUsageOID
        purpose = purposes.SERVER_AUTH if hosts else purposes.CLIENT_AUTH
        builder = (
            self._builder(self._name(common_name), issuer.subject, private, _DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(self._usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([self._host(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        built = builder.sign(issuer_key, self._hashes.SHA256())
        self._write(self._folder / f"{file}.key", self._key_bytes(private), 0o600)
        path = self._folder / f"{file}.pem"
        self._write(path, built.public_bytes(self._pem.Encoding.PEM), 0o644)
        return path

    def _builder(self, subject: Any, issuer: Any, key: Any, days: int) -> Any:
        return (
            self._x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(self._x509.random_serial_number())
            .not_valid_before(self._now - timedelta(hours=1))
            .not_valid_after(self._now + timedelta(days=days))
            .add_extension(self._x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )

    def _usage(self, *, signs: bool) -> Any:
        return self._x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=signs,
            crl_sign=signs,
            encipher_only=False,
            decipher_only=False,
        )

    def _name(self, common_name: str) -> Any:
        part = self._x509.NameAttribute(self._x509.oid.NameOID.COMMON_NAME, common_name)
        return self._x509.Name([part])

    def _host(self, host: str) -> Any:
        try:
            return self._x509.IPAddress(ip_address(host))
        except ValueError:
            return self._x509.DNSName(host)

    def _new_key(self) -> Any:
        return self._keys.generate_private_key(self._keys.SECP256R1())

    def _key_bytes(self, key: Any) -> bytes:
        pem = self._pem
        made: bytes = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
        return made

    def _write(self, path: Path, data: bytes, mode: int) -> None:
        new = path.with_name(f".{path.name}.new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            os.write(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(new, path)


def _cryptography() -> tuple[Any, Any, Any, Any]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as exc:
        raise MissingExtra("making certificates", "access") from exc
    return x509, ec, hashes, serialization
