"""Lists of revoked certificates, as an authority makes them."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from penstock.clock import SYSTEM

HOUR = timedelta(hours=1)


def revoke(
    folder: Path,
    *names: str,
    file: str = "crl.pem",
    by: Path | None = None,
    begins: timedelta = -HOUR,
    ends: timedelta = 24 * HOUR,
) -> Path:
    """Write the list of an authority that revokes some clients in a folder, in one step.

    `by`: the folder of another authority's key, which signs it in the name of the first.
    """
    now = datetime.fromtimestamp(SYSTEM.now_ms() / 1000, UTC)
    authority = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    key = serialization.load_pem_private_key(((by or folder) / "ca.key").read_bytes(), None)
    made = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    made = made.last_update(now + begins).next_update(now + ends)
    for name in names:
        number = x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes()).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now - HOUR).build()
        made = made.add_revoked_certificate(entry)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)  # type: ignore[arg-type]
    path = folder / file
    new = path.with_suffix(".new")
    new.write_bytes(pem)
    os.replace(new, path)
    return path
