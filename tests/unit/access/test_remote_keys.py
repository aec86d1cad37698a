"""Keys of tokens behind a URL: when they are fetched, for how long they hold, and who is asked."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock.access import remote_keys
from penstock.access.access import Access
from penstock.access.access_file import AccessFile
from penstock.access.dev_certificates import DevCertificates
from penstock.access.json_web_token import MOST_KEYS, JwtRules
from penstock.access.policy import AccessPolicy
from penstock.access.principal import Peer
from penstock.access.remote_keys import MOST_BYTES, SOONEST_SECONDS, KeysUrl, RemoteKeys
from penstock.access.watch import AccessWatch
from penstock.errors import InvalidAccessFile, Unauthenticated
from penstock.testing.clock import FakeClock
from tests.access.key_server import KeyServer, jwks

ONE, TWO = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
RULES = JwtRules("RS256", "penstock")


@pytest.fixture
def server() -> Iterator[KeyServer]:
    """Give a server of one key."""
    with KeyServer(jwks(one=ONE)) as made:
        yield made


class Keys:
    """Keys of a URL that are looked at when a test says so, and the lock that they are for."""

    def __init__(self, url: str, **more: Any) -> None:
        self.clock = FakeClock(datetime.now(UTC))
        self.issued = self.clock.now_ms() // 1000  # the library knows the time of the machine alone
        self.remote = RemoteKeys(RULES, KeysUrl(url, **more), self.clock)
        policy = AccessPolicy(jwt=self.remote.verifier, admits_anonymous=False)
        self.access = Access(policy, clock=self.clock)
        self.remote.look()

    def later(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        self.remote.look()

    def token(self, key: Any = ONE, kid: str | None = "one") -> str:
        claims = {"sub": "ana", "aud": "penstock", "iat": self.issued, "exp": self.issued + 20 * 3600}
        return jwt.encode(claims, key, "RS256", headers={} if kid is None else {"kid": kid})

    def takes(self, token: str) -> bool:
        try:
            return self.access.authenticate_bearer(token, Peer("10.0.0.1", "http")).name == "ana"
        except Unauthenticated:
            return False


def test_keys_are_fetched_once_and_kept_until_they_are_old(server: KeyServer) -> None:
    keys = Keys(server.url)
    assert all(keys.takes(keys.token()) for _ in range(3))
    keys.later(299)
    assert server.asked == ["/keys?of=shop"]
    keys.later(2)
    assert len(server.asked) == 2


def test_a_key_that_is_new_is_fetched_at_once_and_made_up_ones_only_now_and_then(server: KeyServer) -> None:
    keys = Keys(server.url)
    server.document = jwks(one=ONE, two=TWO).encode()
    keys.later(SOONEST_SECONDS + 1)
    assert len(server.asked) == 1, "nobody has asked for another"
    new = keys.token(TWO, "two")
    assert not keys.takes(new), "no request waits for a fetch"
    keys.later(0)
    assert keys.takes(new)
    assert len(server.asked) == 2
    for number in range(50):
        assert not keys.takes(keys.token(TWO, f"made-up-{number}"))
        keys.later(0.1)
    assert len(server.asked) == 2
    keys.later(SOONEST_SECONDS)
    assert len(server.asked) == 3


def test_a_token_without_a_key_id_asks_for_the_one_key(server: KeyServer) -> None:
    keys = Keys(server.url)
    assert keys.takes(keys.token(kid=None))
    assert not keys.takes(keys.token(TWO, kid=None))


def test_a_key_that_is_gone_ends_what_it_signed_and_leaves_the_rest(server: KeyServer) -> None:
    server.document = jwks(one=ONE, two=TWO).encode()
    keys = Keys(server.url)
    peer = Peer("10.0.0.1", "kafka")
    one = keys.access.authenticate_bearer(keys.token(), peer)
    two = keys.access.authenticate_bearer(keys.token(TWO, "two"), peer)
    shown = keys.token()
    assert keys.takes(shown)
    server.document = jwks(two=TWO).encode()
    keys.later(301)
    assert not keys.access.holds(one)
    assert keys.access.holds(two)
    assert not keys.takes(shown), "it was shown before, and is remembered"


def test_keys_hold_on_while_the_url_is_away_for_a_bounded_time(server: KeyServer) -> None:
    keys = Keys(server.url, stale_seconds=600)
    ana = keys.access.authenticate_bearer(keys.token(), Peer("10.0.0.1", "kafka"))
    server.close()
    keys.later(301)
    assert "those of before hold" in keys.remote.failure
    for _ in range(5):
        keys.later(59)
        assert keys.takes(keys.token())
    keys.later(60)
    assert "no token holds" in keys.remote.failure
    assert not keys.takes(keys.token())
    assert not keys.access.holds(ana)


def test_a_url_that_comes_back_is_found_soon(server: KeyServer) -> None:
    server.status = 503
    keys = Keys(server.url)
    assert not keys.takes(keys.token())
    server.status = 200
    keys.later(SOONEST_SECONDS - 1)
    assert len(server.asked) == 1
    keys.later(2)
    assert keys.takes(keys.token())
    assert keys.remote.failure == ""


def test_a_redirect_is_not_followed(server: KeyServer) -> None:
    with KeyServer(jwks(one=TWO)) as other:
        server.status, server.headers = 302, {"location": other.url}
        keys = Keys(server.url)
        assert not keys.takes(keys.token(TWO))
        assert other.asked == []
        assert "it leads elsewhere (302): name the address" in keys.remote.failure


def test_an_address_in_a_token_is_never_asked(server: KeyServer) -> None:
    with KeyServer(jwks(evil=TWO)) as other:
        keys = Keys(server.url)
        claims = jwt.decode(keys.token(), options={"verify_signature": False})
        head = {"kid": "evil", "jku": other.url, "x5u": other.url, "jwk": json.loads(jwks(e=TWO))["keys"][0]}
        forged = jwt.encode(claims | {"iss": other.url}, TWO, "RS256", headers=head)
        assert not keys.takes(forged)
        keys.later(SOONEST_SECONDS + 1)
        assert not keys.takes(forged)
        assert other.asked == []


def test_no_proxy_of_the_environment_is_asked(server: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with KeyServer(jwks(one=TWO)) as other:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, other.url)
            monkeypatch.setenv(name.upper(), other.url)
        keys = Keys(server.url)
        assert keys.takes(keys.token())
        assert other.asked == []


def private() -> str:
    return json.dumps({"keys": [json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(ONE)) | {"kid": "one"}]})


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (" " * MOST_BYTES + jwks(one=ONE), f"more than {MOST_BYTES} bytes"),
        (json.dumps({"keys": [json.loads(jwks(one=ONE))["keys"][0]] * (MOST_KEYS + 1)}), "at most 100"),
        ("<html>", "no JWKS document"),
        ('{"keys": []}', "no key for RS256"),
        (private(), "private key"),
        ("[" * 100_000, "no JWKS document"),
    ],
    ids=["large", "many", "a page", "none", "private", "deep"],
)
def test_what_is_no_set_of_keys_is_refused_and_those_of_before_hold(document: str, why: str, server: KeyServer) -> None:
    keys = Keys(server.url)
    server.document = document.encode()
    keys.later(301)
    assert why in keys.remote.failure
    assert keys.takes(keys.token())


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a fetch take less time in all than a part of it may."""
    monkeypatch.setattr(remote_keys, "_FETCH_SECONDS", 0.2)
    monkeypatch.setattr(remote_keys, "_WAIT_SECONDS", 60.0)


@pytest.mark.usefixtures("in_a_hurry")
@pytest.mark.parametrize("connection", ["keep-alive", "close"])
@pytest.mark.parametrize("place", ["before", "between"])
def test_an_answer_that_comes_a_byte_at_a_time_ends(server: KeyServer, place: str, connection: str) -> None:
    """The server holds its answer until the client has gone: so it is the client that ended it."""
    gone = threading.Event()
    with ExitStack() as stack:
        setattr(server, place, gone.wait)
        server.headers = {"connection": connection}
        stack.callback(gone.set)
        keys = Keys(server.url)
        assert "were not fetched" in keys.remote.failure
        assert "timed out" not in keys.remote.failure, "each part of it had its time"


@pytest.mark.usefixtures("in_a_hurry")
def test_a_handshake_that_never_ends_is_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        keys = Keys(f"https://127.0.0.1:{silent.getsockname()[1]}/keys")
        assert "were not fetched" in keys.remote.failure
        assert "timed out" not in keys.remote.failure, "each part of it had its time"


def test_keys_that_are_too_old_hold_no_more_while_a_fetch_takes_its_time(server: KeyServer) -> None:
    keys = Keys(server.url, stale_seconds=600)
    ana = keys.access.authenticate_bearer(keys.token(), Peer("10.0.0.1", "kafka"))
    keys.clock.advance(timedelta(seconds=601))  # and nobody has looked
    assert not keys.takes(keys.token())
    assert not keys.access.holds(ana)
    keys.later(0)
    assert keys.takes(keys.token())


def test_https_needs_a_certificate_of_an_authority_that_is_named(tmp_path: Path) -> None:
    DevCertificates(tmp_path / "tls").make([])
    DevCertificates(tmp_path / "other").make([])
    authority = (tmp_path / "tls" / "ca.pem").read_text()
    other = (tmp_path / "other" / "ca.pem").read_text()
    with KeyServer(jwks(one=ONE), tmp_path / "tls") as server:
        named = Keys(server.url, authority=authority)
        assert named.takes(named.token())
        for wrong in ("", other):
            keys = Keys(server.url, authority=wrong)
            assert "its certificate is not trusted" in keys.remote.failure
            assert "jwks_ca" in keys.remote.failure
            assert not keys.takes(keys.token())
        assert len(server.asked) == 1


JWT = 'rules = ""\n[jwt]\nalgorithm = "RS256"\naudience = "penstock"\n'
WRONG = {
    "http elsewhere": 'jwks_url = "http://login.example/keys"',
    "http to a name like this machine": 'jwks_url = "http://127.0.0.1.evil.example/keys"',
    "another scheme": 'jwks_url = "file:///etc/passwd"',
    "a password": 'jwks_url = "https://ana:canary-7f3a@login.example/keys"',
    "no host": 'jwks_url = "https:///keys"',
    "no port": 'jwks_url = "https://login.example:x/keys"',
    "a line feed": 'jwks_url = "https://login.example/keys\\nx"',
    "a file, too": 'jwks_url = "https://login.example/keys"\njwks = "x"',
    "an authority that is none": 'jwks_url = "https://login.example/keys"\njwks_ca = "empty.pem"',
    "an authority that is not there": 'jwks_url = "https://login.example/keys"\njwks_ca = "gone.pem"',
    "an authority without a URL": 'jwks = "x"\njwks_ca = "empty.pem"',
    "too often": 'jwks_url = "https://login.example/keys"\njwks_refresh_seconds = 1',
    "too long": 'jwks_url = "https://login.example/keys"\njwks_stale_seconds = 1e9',
    "forgotten before they are fetched": 'jwks_url = "https://a.example/k"\njwks_refresh_seconds = 7200',
}


@pytest.mark.parametrize("text", WRONG.values(), ids=list(WRONG))
def test_a_url_that_cannot_be_trusted_is_refused_without_quoting_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "access.toml").write_text(JWT + text)
    (tmp_path / "empty.pem").write_text("none")
    with pytest.raises(InvalidAccessFile) as caught:
        AccessFile(tmp_path / "access.toml").load()
    assert "canary" not in str(caught.value)


def test_a_secret_is_not_taken_from_a_url(tmp_path: Path) -> None:
    (tmp_path / "access.toml").write_text(JWT.replace("RS256", "HS256") + 'jwks_url = "https://a.example/k"')
    with pytest.raises(InvalidAccessFile, match="secret_file"):
        AccessFile(tmp_path / "access.toml").load()


def test_the_file_that_names_a_url_is_read_again_without_asking_it_unless_it_names_another(
    server: KeyServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, access = tmp_path / "access.toml", Access()
    path.write_text(JWT + f'jwks_url = "{server.url}"')
    watch = AccessWatch(access, path=path)
    watch.load()
    keys = Keys(server.url)
    ana = access.authenticate_bearer(keys.token(), Peer("10.0.0.1", "http"))
    path.write_text(path.read_text().replace('rules = ""', 'rules = "allow ana * *"'))
    watch.look()
    assert len(access.rules) == 1
    assert access.holds(ana)
    assert len(server.asked) == 2  # by the watch, and by the test
    with KeyServer(jwks(two=TWO)) as other:
        path.write_text(JWT + f'jwks_url = "{other.url}"')
        watch.look()
        assert not access.holds(ana)
        assert access.authenticate_bearer(keys.token(TWO, "two"), Peer("10.0.0.1", "http")).name == "ana"
    path.write_text(JWT + f'jwks_url = "{other.url}"\nprefix = "sso:"')
    watch.look()
    assert "were not fetched" in caplog.text
    assert "no token holds" in caplog.text


def test_a_thread_fetches_them_between_start_and_stop(server: KeyServer, tmp_path: Path) -> None:
    path, access = tmp_path / "access.toml", Access()
    server.status = 503
    path.write_text(JWT + f'jwks_url = "{server.url}"')
    watch = AccessWatch(access, path=path)
    watch.load()
    asked = threading.Event()
    server.before, server.status = asked.set, 200
    remote = access._force.policy.remote_keys
    assert remote is not None
    remote._tried = None  # as if it were long ago
    watch.start()
    assert asked.wait(30)
    watch.stop()
    assert not [each for each in threading.enumerate() if each.name in ("penstock-keys", "penstock-access")]
