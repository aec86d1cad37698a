"""A TLS handshake that fails is said once in a while, with what to do."""

import logging
import ssl
from pathlib import Path

import pytest

from penstock.access.dev_certificates import DevCertificates
from penstock.access.tls import ServerTls, TlsFiles

_STEPS = 4


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder of certificates."""
    pytest.importorskip("cryptography", reason="pip install 'penstock-outbox[access]'")
    folder = tmp_path_factory.mktemp("certificates")
    DevCertificates(folder).make(("ana",), ())
    return folder


def _server(certificates: Path) -> ServerTls:
    certificate, key, authority = (certificates / each for each in ("server.pem", "server.key", "ca.pem"))
    return ServerTls(TlsFiles(certificate, key, authority))


def _shake(server: ServerTls, client: ssl.SSLContext) -> None:
    """Let a client and a server shake hands in memory, as far as they come."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.context.wrap_bio(up, down, server_side=True)
    theirs = client.wrap_bio(down, up, server_hostname="localhost")
    for each in (theirs, ours) * _STEPS:
        try:
            each.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError:
            if each is ours:
                return


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_a_client_without_a_certificate_is_said_once(certificates: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = _server(certificates)
    client = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    for _ in range(3):
        _shake(server, client)
    (said,) = _said(caplog)
    assert "peer did not return a certificate" in said
    assert "access.client_certificates" in said


def test_a_client_that_does_not_trust_us_is_said(certificates: Path, caplog: pytest.LogCaptureFixture) -> None:
    _shake(_server(certificates), ssl.create_default_context())
    (said,) = _said(caplog)
    assert "does not trust our certificate" in said


def test_a_client_that_does_not_speak_tls_is_said(certificates: Path, caplog: pytest.LogCaptureFixture) -> None:
    up = ssl.MemoryBIO()
    up.write(b"\0\0\0\x20\0\x12\0\x03\0\0\0\x01\0\x07rdkafka")
    with pytest.raises(ssl.SSLError):
        _server(certificates).context.wrap_bio(up, ssl.MemoryBIO(), server_side=True).do_handshake()
    (said,) = _said(caplog)
    assert "does not speak TLS" in said


def test_a_handshake_that_succeeds_is_not_said(certificates: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    client.load_cert_chain(certificates / "ana.pem", certificates / "ana.key")
    _shake(_server(certificates), client)
    assert _said(caplog) == []
