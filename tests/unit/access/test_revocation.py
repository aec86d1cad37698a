"""Lists of revoked certificates: what is refused, by name, and that OpenSSL and we read the same."""

import shutil
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.access.access import Access
from penstock.access.certificates import RevokedCertificates, certificate_of, credential_of, read_revoked
from penstock.access.dev_certificates import DevCertificates
from penstock.access.opening import tls_of
from penstock.access.principal import Peer
from penstock.access.settings import AccessSettings
from penstock.access.tls import ServerTls, TlsFiles
from penstock.access.watch import AccessWatch
from penstock.clock import SYSTEM
from penstock.errors import InvalidCertificate, Unauthenticated
from penstock.testing.clock import FakeClock
from tests.access.revoking import HOUR, revoke

CLIENTS = ["ana", "ben"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give certificates of an authority, and of another in `other`."""
    DevCertificates(tmp_path).make(CLIENTS)
    DevCertificates(tmp_path / "other").make(CLIENTS)
    return tmp_path


def read(folder: Path) -> RevokedCertificates:
    return read_revoked(folder / "crl.pem", (folder / "ca.pem").read_bytes(), SYSTEM.now_ms() / 1000)


def server(folder: Path) -> ServerTls:
    certificate, key, authority = (folder / each for each in ("server.pem", "server.key", "ca.pem"))
    return ServerTls(TlsFiles(certificate, key, authority, client_crl=folder / "crl.pem"))


def shaken(server: ServerTls, folder: Path, name: str) -> str:
    """Let a client shake hands in memory; return why that fails, or nothing."""
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.context.wrap_bio(up, down, server_side=True)
    theirs = client.wrap_bio(down, up, server_hostname="localhost")
    for each in (theirs, ours) * 4:
        try:
            each.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as exc:
            return exc.verify_message
    return ""


def test_a_list_names_its_certificates_as_they_show_themselves(folder: Path) -> None:
    revoke(folder, "ana")
    found = read(folder)
    shown = {name: certificate_of((folder / f"{name}.pem").read_bytes()) for name in CLIENTS}
    decoded = {name: ssl._ssl._test_decode_cert(str(folder / f"{name}.pem")) for name in CLIENTS}  # type: ignore[attr-defined]
    for name in CLIENTS:
        assert credential_of(shown[name]) == credential_of(decoded[name])
        assert (credential_of(shown[name]) in found.credentials) == (name == "ana")
    assert found.ends == pytest.approx(SYSTEM.now_ms() / 1000 + 24 * 3600, abs=60)


def test_a_certificate_of_another_authority_with_the_same_number_is_another() -> None:
    one = {"serialNumber": "01", "issuer": ((("commonName", "one"),),)}
    assert credential_of(one) != credential_of(one | {"issuer": ((("commonName", "two"),),)})
    assert credential_of(one) != credential_of(one | {"serialNumber": "02"})


def test_a_revoked_certificate_ends_at_the_handshake_and_others_get_in(folder: Path) -> None:
    revoke(folder, "ana")
    tls = server(folder)
    assert (shaken(tls, folder, "ana"), shaken(tls, folder, "ben")) == ("certificate revoked", "")
    revoke(folder, "ben")
    tls.reload()
    assert (shaken(tls, folder, "ana"), shaken(tls, folder, "ben")) == ("", "certificate revoked")


def cut(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + whole[140:])


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "that ran out": (lambda folder: revoke(folder, begins=-2 * HOUR, ends=-HOUR), "ran out at"),
    "of later": (lambda folder: revoke(folder, begins=HOUR), "clock"),
    "of a forger": (lambda folder: revoke(folder, by=folder / "other"), "not signed"),
    "that is none": (lambda folder: (folder / "crl.pem").write_text("x"), "BEGIN|PEM"),
    "that is cut": (lambda folder: cut(revoke(folder)), "cannot be read"),
    "that is gone": (lambda folder: (folder / "crl.pem").unlink(missing_ok=True), "cannot be read"),
    "with one more authority": (
        lambda folder: (folder / "crl.pem").write_bytes(
            revoke(folder).read_bytes() + (folder / "other" / "ca.pem").read_bytes()
        ),
        "certificate beside",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_list_is_refused_by_name_and_the_former_stays(name: str, folder: Path) -> None:
    revoke(folder, "ana")
    tls = server(folder)
    before = tls.revoked
    write, why = WRONG[name]
    write(folder)
    with pytest.raises(InvalidCertificate, match=why) as caught:
        tls.reload()
    assert str(folder / "crl.pem") in str(caught.value)
    assert tls.revoked is before
    assert (shaken(tls, folder, "ana"), shaken(tls, folder, "ben")) == ("certificate revoked", "")
    with pytest.raises(InvalidCertificate, match=why):
        server(folder)


def test_a_list_that_runs_out_meanwhile_is_said_and_lets_nobody_in(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    revoke(folder, "ana")
    tls, clock = server(folder), FakeClock(datetime.now(UTC))
    access = Access(clock=clock)
    watch = AccessWatch(access, tls=tls, clock=clock)
    watch.load()
    ben = certificate_of((folder / "ben.pem").read_bytes())
    peer = Peer("10.0.0.1", "grpc")
    known = access.of_certificate(ben, peer)
    watch.look()
    assert access.holds(known)
    assert not caplog.records
    clock.advance(timedelta(hours=25))
    for _ in range(3):
        watch.look()
    (said,) = [each.getMessage() for each in caplog.records]
    assert f"{folder / 'crl.pem'}: it has run out" in said
    with pytest.raises(Unauthenticated, match="run out"):
        access.of_certificate(ben, peer)
    assert not access.holds(known), "a connection that is open goes on"


def test_a_principal_stays_until_its_certificate_is_revoked(folder: Path) -> None:
    access, peer = Access(), Peer("10.0.0.1", "kafka")
    ana = access.of_certificate(certificate_of((folder / "ana.pem").read_bytes()), peer)
    assert access.holds(ana)
    heard: list[bool] = []
    access.watch(lambda: heard.append(access.holds(ana)))
    revoke(folder, "ana")
    access.revoke(read(folder))
    assert heard == [False]


@pytest.mark.parametrize("given", [{"tls_client_crl": "crl.pem"}, {"tls_cert": "x", "tls_client_crl": "crl.pem"}])
def test_a_list_without_what_it_is_for_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidCertificate, match="of no use without"):
        tls_of(AccessSettings.load(**given))


def test_several_authorities_have_a_list_each(folder: Path) -> None:
    both = folder / "both"
    both.mkdir()
    shutil.copy(folder / "server.pem", both)
    shutil.copy(folder / "server.key", both)
    (both / "ca.pem").write_bytes((folder / "ca.pem").read_bytes() + (folder / "other/ca.pem").read_bytes())
    lists = [revoke(folder, "ana"), revoke(folder / "other", "ben")]
    (both / "crl.pem").write_bytes(b"".join(each.read_bytes() for each in lists))
    assert len(server(both).revoked.credentials) == 2
