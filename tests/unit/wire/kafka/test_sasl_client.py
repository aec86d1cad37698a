"""The client's side of a login: the messages of the RFCs, and the other side that we have ourselves."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from penstock.access.scram import ScramExchange, scram_secret
from penstock.errors import Unauthenticated
from penstock.wire.kafka.sasl_client import sasl_exchange, scram_exchange

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def begun(nonce: str | None = NONCE) -> Generator[bytes, bytes, None]:
    steps = scram_exchange("SCRAM-SHA-256", "user", "pencil", nonce)
    assert next(steps) == f"n,,n=user,r={nonce}".encode()
    return steps


def test_the_example_of_the_rfc() -> None:
    steps = begun()
    wanted = (
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert steps.send(FIRST.encode()) == wanted.encode()
    with pytest.raises(StopIteration):
        steps.send(FINAL.encode())


def test_plain_sends_name_and_password_and_wants_nothing() -> None:
    steps = sasl_exchange("PLAIN", "ana", "pässword")
    assert next(steps) == "\0ana\0pässword".encode()
    with pytest.raises(StopIteration):
        steps.send(b"")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["ana", "a=b,c", "ünal"])
def test_our_own_server_takes_it(mechanism: str, name: str) -> None:
    secret = scram_secret(mechanism, "pencil")
    server = ScramExchange(mechanism, {name: secret}.get, lambda name: secret)
    steps = sasl_exchange(mechanism, name, "pencil")
    final = steps.send(server.first(next(steps)))
    with pytest.raises(StopIteration):
        steps.send(server.final(final))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_by_our_own_server(mechanism: str) -> None:
    secret = scram_secret(mechanism, "pencil")
    server = ScramExchange(mechanism, {"ana": secret}.get, lambda name: secret)
    steps = sasl_exchange(mechanism, "ana", "pen")
    final = steps.send(server.first(next(steps)))
    with pytest.raises(Unauthenticated):
        server.final(final)


def test_a_server_that_does_not_know_the_password_is_noticed() -> None:
    steps = begun()
    steps.send(FIRST.encode())
    with pytest.raises(Unauthenticated, match="has not proved that it knows"):
        steps.send(b"v=" + FINAL[2:].replace("6rri", "7rri").encode())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (FIRST.replace("rOpr", "xOpr"), "another exchange"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another exchange"),
        (FIRST.replace("i=4096", "i=4095"), "4,095 iterations"),
        (FIRST.replace("i=4096", "i=9999999"), "9,999,999 iterations"),
        (FIRST.replace("i=4096", "i=99999999999"), "not a SCRAM message"),
        ("e=other-error", "not a SCRAM message"),
        ("", "not a SCRAM message"),
        (FIRST.replace("s=W22Z", "s=W2="), "not a SCRAM message"),
        ("r=ü", "not a SCRAM message"),
    ],
)
def test_an_answer_that_cannot_be_trusted_ends_it(answer: str, why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        begun().send(answer.encode())
