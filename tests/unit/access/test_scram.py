"""SCRAM: the examples of the RFCs, and what is refused."""

from base64 import b64decode, b64encode

import pytest

from penstock.access.made_up import MadeUpSecrets
from penstock.access.policy import User
from penstock.access.scram import ScramExchange, ScramSecret, _secret, parse_scram_secret, scram_secret
from penstock.errors import InvalidInput, Unauthenticated

# RFC 7677, section 3. RFC 5802's own example is of SHA-1, which is not offered.
SALT, NONCE = b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
SECRET = _secret("SCRAM-SHA-256", "pencil", SALT, 4096)
USERS = [User("user", scram={"SCRAM-SHA-256": SECRET})]
UNKNOWN = b"k" * 32


def exchange(secret: ScramSecret | None = SECRET, nonce: str | None = NONCE) -> ScramExchange:
    def make_up(name: str) -> ScramSecret:
        return MadeUpSecrets(USERS, UNKNOWN).scram("SCRAM-SHA-256", name)

    return ScramExchange("SCRAM-SHA-256", lambda name: secret if name == "user" else None, make_up, nonce=nonce)


def test_the_example_of_the_rfc() -> None:
    one = exchange()
    assert one.first(FIRST) == SERVER_FIRST
    assert one.final(FINAL) == SERVER_FINAL
    assert one.name == "user"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_what_is_kept_reads_as_it_was_written(mechanism: str) -> None:
    made = scram_secret(mechanism, "pencil")
    assert parse_scram_secret(str(made)) == made
    assert made.fits("pencil")
    assert not made.fits("Pencil")
    assert "pencil" not in str(made)


@pytest.mark.parametrize("password", ["", "x" * 1025])
def test_a_password_of_no_length_is_refused(password: str) -> None:
    with pytest.raises(InvalidInput):
        scram_secret("SCRAM-SHA-256", password)


@pytest.mark.parametrize(
    "text", ["", "SCRAM-SHA-1$4096:c2FsdA==$YQ==:YQ==", str(SECRET).replace("4096", "1000"), f"{SECRET}x", "pencil"]
)
def test_what_is_no_kept_password_is_not_taken(text: str) -> None:
    assert parse_scram_secret(text) is None


def test_what_was_heard_on_one_exchange_is_worth_nothing_on_another() -> None:
    other = exchange(nonce=None)
    other.first(FIRST)
    with pytest.raises(Unauthenticated, match="another exchange"):
        other.final(FINAL)


def test_a_nonce_that_only_begins_right_is_refused() -> None:
    one = exchange()
    one.first(FIRST)
    with pytest.raises(Unauthenticated):
        one.final(FINAL.replace(NONCE.encode(), NONCE[:-1].encode()))


def test_an_exchange_is_over_after_its_last_message() -> None:
    one = exchange()
    one.first(FIRST)
    one.final(FINAL)
    with pytest.raises(Unauthenticated):
        one.final(FINAL)
    with pytest.raises(Unauthenticated):
        one.first(FIRST)


def test_a_name_that_nobody_has_is_answered_alike_and_fails_where_a_wrong_password_does() -> None:
    answers = {exchange().first(FIRST.replace(b"user", b"nobody")) for _ in range(2)}
    assert len(answers) == 1  # its salt is always the same, or asking twice would tell
    one = exchange()
    (said,) = answers
    assert len(said.partition(b",s=")[2].partition(b",")[0]) == 24
    one.first(FIRST.replace(b"user", b"nobody"))
    with pytest.raises(Unauthenticated, match="name or password is wrong"):
        one.final(FINAL)
    wrong = exchange(_secret("SCRAM-SHA-256", "other", SALT, 4096))
    wrong.first(FIRST)
    with pytest.raises(Unauthenticated, match="name or password is wrong"):
        wrong.final(FINAL)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"p=tls-unique,,n=user,r=abc",  # a binding to the channel that was never offered
        b"n,a=admin,n=user,r=abc",  # for somebody else
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"\xff\xfe",
        b"n,,n=user,r=" + b"a" * 3000,
    ],
)
def test_a_first_message_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(Unauthenticated):
        exchange().first(message)


@pytest.mark.parametrize(
    "change",
    [
        (b"c=biws", b"c=" + b64encode(b"y,,")),  # another flag than was said at first
        (b"p=dHzb", b"p=AAAA"),
        (FINAL[FINAL.index(b",p=") :], b",p=" + b64encode(b"short")),
        (FINAL[FINAL.index(b",p=") :], b""),
    ],
)
def test_a_last_message_that_does_not_fit_is_refused(change: tuple[bytes, bytes]) -> None:
    one = exchange()
    one.first(FIRST)
    with pytest.raises(Unauthenticated):
        one.final(FINAL.replace(*change))
