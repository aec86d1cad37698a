"""JSON Web Tokens: each check by itself, so that a test fails for each one that is taken out."""

import json
from datetime import timedelta
from typing import Any

import jwt
import pytest

from penstock.access.json_web_token import LONGEST_TOKEN, JwtRules, JwtVerifier, shared_secret
from penstock.access.principal import Peer, Principal
from penstock.clock import SYSTEM
from penstock.errors import Unauthenticated

SECRET = b"0123456789abcdef0123456789abcdef"
RULES = JwtRules("HS256", "penstock", issuer="https://login.example", longest_seconds=3600)
HOUR = 3600


def verifier(**rules: Any) -> JwtVerifier:
    return shared_secret(RULES._replace(**rules), SECRET)


def token(*, key: bytes = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    """Return a token that holds, but for what is said; a claim of None is left out."""
    now = SYSTEM.now_ms() // 1000
    said = {"sub": "ana", "aud": "penstock", "iss": "https://login.example", "iat": now, "exp": now + 600, **claims}
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm=algorithm)


def shown(text: str, checks: JwtVerifier | None = None, later: timedelta = timedelta()) -> Principal:
    now = SYSTEM.now_ms() / 1000 + later.total_seconds()
    return (checks or verifier()).verify(text, now, Peer("10.0.0.1", "http"))


def test_a_token_that_holds_says_who_it_was_given_to_and_until_when() -> None:
    now = SYSTEM.now_ms() // 1000
    found = shown(token(exp=now + 600))
    assert (found.name, found.method, found.address) == ("ana", "jwt", "10.0.0.1")
    assert found.expires == now + 600 + RULES.leeway_seconds


@pytest.mark.parametrize("audience", ["billing", ["billing", "other"], [], None, "", "penstock2"], ids=str)
def test_a_token_for_another_audience_or_none_does_not_hold(audience: object) -> None:
    with pytest.raises(Unauthenticated, match="does not hold"):
        shown(token(aud=audience))


def test_a_token_for_several_audiences_of_which_one_is_ours_holds() -> None:
    assert shown(token(aud=["billing", "penstock"])).name == "ana"


def test_a_token_that_lives_longer_than_is_admitted_does_not_hold() -> None:
    now = SYSTEM.now_ms() // 1000
    assert shown(token(iat=now, exp=now + HOUR)).name == "ana"
    with pytest.raises(Unauthenticated, match="longest_seconds"):
        shown(token(iat=now, exp=now + HOUR + 10))


def test_the_life_of_a_token_counts_from_now_where_it_says_that_it_begins_later_or_nothing() -> None:
    now = SYSTEM.now_ms() // 1000
    for issued in (None, now + 20):  # within the leeway of other clocks
        with pytest.raises(Unauthenticated, match="longest_seconds"):
            shown(token(iat=issued, exp=now + HOUR + 15))


def test_the_life_of_an_old_token_counts_from_its_beginning() -> None:
    now = SYSTEM.now_ms() // 1000
    with pytest.raises(Unauthenticated, match="longest_seconds"):
        shown(token(iat=now - 2 * HOUR, exp=now + 600))


@pytest.mark.parametrize("expires", [None, "soon", True], ids=str)
def test_a_token_without_an_end_does_not_hold(expires: object) -> None:
    with pytest.raises(Unauthenticated):
        shown(token(exp=expires))


def test_a_token_that_has_expired_or_is_not_valid_yet_does_not_hold() -> None:
    now = SYSTEM.now_ms() // 1000
    assert shown(token(iat=now - 60, exp=now - 20)).name == "ana", "within the leeway"
    with pytest.raises(Unauthenticated, match="expired"):
        shown(token(iat=now - 600, exp=now - 60))
    with pytest.raises(Unauthenticated, match="does not hold"):
        shown(token(nbf=now + 300))


@pytest.mark.parametrize("issuer", ["https://evil.example", None], ids=str)
def test_a_token_of_another_issuer_or_none_does_not_hold(issuer: str | None) -> None:
    with pytest.raises(Unauthenticated, match="does not hold"):
        shown(token(iss=issuer))


def test_a_token_of_another_key_or_algorithm_does_not_hold() -> None:
    for wrong in (token(key=b"x" * 32), token(algorithm="HS384", key=SECRET * 2)):
        with pytest.raises(Unauthenticated, match="does not hold"):
            shown(wrong)


@pytest.mark.parametrize("issued", ["now", True, [1]], ids=str)
def test_a_beginning_that_is_no_time_does_not_hold(issued: object) -> None:
    with pytest.raises(Unauthenticated):
        shown(token(iat=issued))


def test_a_very_long_token_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt, "decode", lambda *_, **__: pytest.fail("it was looked at"))
    with pytest.raises(Unauthenticated, match="too long"):
        shown(token(padding="x" * LONGEST_TOKEN))


@pytest.mark.parametrize("name", ["*", "anonymous", "ana\nops", "", None, 7], ids=repr)
def test_a_name_that_deceives_is_refused(name: object) -> None:
    with pytest.raises(Unauthenticated):
        shown(json_token(name))


def json_token(name: object) -> str:
    """Return a token with a name of any kind, which PyJWT would not sign."""
    now = SYSTEM.now_ms() // 1000
    claims = {"sub": name, "aud": "penstock", "iss": "https://login.example", "exp": now + 600}
    return jwt.api_jws.encode(json.dumps(claims).encode(), SECRET, algorithm="HS256")
