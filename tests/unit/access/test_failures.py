"""Failures slow the name that fails; an address that fails often takes turns, and never locks out others."""

from datetime import timedelta
from random import Random

import pytest

from penstock.access import failures as failing
from penstock.access.access import Access
from penstock.access.failures import Failures
from penstock.access.password import hash_password, token_digest
from penstock.access.policy import AccessPolicy, User
from penstock.access.principal import Peer
from penstock.access.scram import scram_secret
from penstock.errors import Unauthenticated
from penstock.testing.clock import FakeClock

PASSWORD = "canary-7f3a-password"
HERE = Peer("10.0.0.1", "http")


@pytest.fixture
def access() -> Access:
    """Give a lock with two users, and a clock that stands still."""
    scram = {"SCRAM-SHA-256": scram_secret("SCRAM-SHA-256", PASSWORD)}
    users = {name: User(name, hash_password(PASSWORD), scram) for name in ("ana", "ben")}
    return Access(AccessPolicy(users=users, admits_anonymous=False), clock=FakeClock())


def fail(failures: Failures, address: str, count: int, name: str = "n") -> None:
    for number in range(count):
        failures.failed(address, f"{name}{number}")


def test_a_wrong_password_that_is_retried_for_ever_locks_out_nobody_else(access: Access) -> None:
    for _ in range(200):
        with pytest.raises(Unauthenticated):
            access.authenticate_basic("ana", "wrong", HERE)
    assert access.wait_for_basic("ben", PASSWORD, HERE) == 0
    assert access.authenticate_basic("ben", PASSWORD, HERE).name == "ben"


def test_a_refusal_for_the_time_alone_makes_the_time_no_longer(access: Access) -> None:
    clock = access._clock
    assert isinstance(clock, FakeClock)
    for _ in range(5):
        with pytest.raises(Unauthenticated, match="wrong"):
            access.authenticate_basic("ana", "wrong", HERE)
    for _ in range(50):
        with pytest.raises(Unauthenticated, match=r"try again in 2 seconds|try again in 1 seconds"):
            access.authenticate_basic("ana", PASSWORD, HERE)
    clock.advance(timedelta(seconds=1))
    assert access.authenticate_basic("ana", PASSWORD, HERE).name == "ana"


def test_names_sprayed_from_an_address_take_turns_and_those_who_got_in_there_go_first(access: Access) -> None:
    access.authenticate_basic("ana", PASSWORD, HERE)
    fail(access._failures, HERE.address, 50)
    waits = [access.wait_for_basic(f"sprayed{number}", "x", HERE) for number in range(8)]
    assert waits == [number * 0.25 for number in range(8)]
    assert access.wait_for_basic("ben", PASSWORD, HERE) == 2, "a right secret waits for its turn, and gets it"
    assert access.wait_for_basic("ana", "another password of hers", HERE) == 0, "the pair is known"
    assert access.wait_for_basic("ben", PASSWORD, Peer("10.0.0.2", "http")) == 0, "others are not slowed"
    assert access.authenticate_basic("ben", PASSWORD, HERE).name == "ben"


def test_a_secret_that_is_known_does_not_wait_even_once_its_pair_is_forgotten(access: Access) -> None:
    access.authenticate_basic("ana", PASSWORD, HERE)
    access._failures._good.clear()
    fail(access._failures, HERE.address, 51)
    access.wait_for_basic("ben", "x", HERE)
    assert access.wait_for_basic("ana", PASSWORD, HERE) == 0
    assert access.wait_for_basic("ana", "x", HERE) > 0


def test_scram_takes_the_same_turns(access: Access) -> None:
    fail(access._failures, HERE.address, 50)
    access.wait_for_basic("ben", "x", HERE)
    login = access.scram("SCRAM-SHA-256", HERE)
    assert login.wait_for_turn() == 0, "the first message shows nothing yet"
    login.step(b"n,,n=ana,r=abcdefghijklmnop")
    assert login.wait_for_turn() == 0.25


def test_more_than_get_their_turn_in_time_are_refused_and_the_turns_go_on(access: Access) -> None:
    clock = access._clock
    assert isinstance(clock, FakeClock)
    access._failures = Failures(clock, lambda: 0.0)  # by a lot that is for everybody
    fail(access._failures, HERE.address, 50)
    for number in range(21):  # four a second, for five seconds, and the one at once
        access.wait_for_basic(f"n{number}", "x", HERE)
    with pytest.raises(Unauthenticated, match="from this address"):
        access.wait_for_basic("one more", "x", HERE)
    clock.advance(timedelta(seconds=1))
    assert access.wait_for_basic("ben", PASSWORD, HERE) == 4.25
    clock.advance(timedelta(seconds=301))
    assert access.wait_for_basic("ben", PASSWORD, HERE) == 0, "failures of long ago are forgotten"


@pytest.mark.parametrize("pause", [0.02, 0.0], ids=["steadily", "in pulses"])
def test_beside_a_sprayer_an_honest_first_login_gets_in_after_some_tries(pause: float) -> None:
    """Even one that comes once a second, always just after fifty of the sprayer."""
    clock = FakeClock()
    failures = Failures(clock, Random(7).random)
    fail(failures, HERE.address, 50)

    def gets_turn(name: str) -> bool:
        try:
            failures.turn(HERE.address, name)
        except Unauthenticated:
            return False
        failures.failed(HERE.address, name)
        return True

    sprayed, honest = 0, []
    for second in range(200):
        for number in range(50):
            clock.advance(timedelta(seconds=pause))
            sprayed += gets_turn(f"{second}-{number}")
        honest.append(gets_turn(f"honest{second}"))
        clock.advance(timedelta(seconds=1 - 50 * pause))
    assert any(honest[:100]), "a hundred tries were in vain"
    assert any(honest[100:]), "a hundred tries were in vain"
    assert 2 * 200 < sprayed < 4 * 200, "about three a second"


def test_ipv6_counts_by_the_network_of_a_household() -> None:
    failures = Failures(FakeClock())
    for number in range(50):
        failures.failed(f"2001:db8:1:2::{number:x}", "n")
    failures.turn("2001:db8:1:2:ffff::1", "x")
    assert failures.turn("2001:db8:1:2:ffff::2", "x") > 0
    assert failures.turn("2001:db8:1:3::1", "x") == 0
    fail(failures, "::ffff:10.0.0.9", 50)
    failures.turn("10.0.0.9", "x")
    assert failures.turn("10.0.0.9", "x") > 0, "an IPv4 address is the same when it is mapped"


@pytest.mark.parametrize("password", ["right", None], ids=["beside a password", "of tokens alone"])
def test_secrets_without_names_are_guessed_in_turns_and_a_wrong_client_locks_out_no_other(password: str | None) -> None:
    token, peer = "canary-31e5-token", Peer("10.0.0.1", "tinyq")
    policy = AccessPolicy(tokens={token_digest(token): "bot"}, admits_anonymous=False)
    access, fits = Access(policy, clock=FakeClock()), password and password.__eq__

    def name_of(secret: str) -> str:
        return access.authenticate_secret("shared", secret, fits or None, peer).name

    for number in range(50):
        assert access.wait_for_secret(f"guess{number}", peer) == 0
        with pytest.raises(Unauthenticated, match=r"wrong|not known"):
            name_of(f"guess{number}")
    assert [access.wait_for_secret(each, peer) for each in ("guess", "guess", token)] == [0, 0.25, 0.5]
    assert name_of(token) == "bot", "others at the address failed"
    assert password is None or name_of(password) == "shared", "others at the address failed"
    assert access.wait_for_secret(token, peer) == 0, "it was right here"
    assert access.wait_for_secret("guess", peer) == 0.75, "what others know helps nobody to guess"


def test_a_name_of_any_length_is_kept_in_a_few_bytes(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = Failures(FakeClock())
    monkeypatch.setattr(failing, "_MOST", 10)
    for number in range(50):
        failures.failed("10.0.0.1", f"{number}{'x' * 65_536}")
        failures.succeeded("10.0.0.1", f"{number}{'y' * 65_536}")
    kept = [*failures._names, *failures._good, *failures._addresses]
    assert len(kept) <= 21
    assert {len(each) for each in kept} == {16}
    monkeypatch.setattr(User, "fits", lambda *_: pytest.fail("a hash was made"))
    with pytest.raises(Unauthenticated, match="wrong"):
        access.authenticate_basic("x" * 201, PASSWORD, HERE)
