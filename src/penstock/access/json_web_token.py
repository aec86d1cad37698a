"""JSON Web Tokens: one pinned algorithm, keys of a file or a URL, expiry and audience always checked.

A token's own header chooses only which of our keys is tried (`kid`, looked up in a dict): never the
algorithm, a file or an address. PyJWT does the cryptography; this module also refuses tokens that PyJWT
accepts: very long ones, ones that never expire, names that deceive a reader.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock.errors import MissingExtra, Unauthenticated

from .principal import Peer, Principal, check_name

LONGEST_TOKEN = 8 * 1024  # characters
ASYMMETRIC = {"RS256": "RSA", "RS512": "RSA", "PS256": "RSA", "ES256": "EC", "ES384": "EC", "EdDSA": "OKP"}
SYMMETRIC = ("HS256", "HS384", "HS512")
ALGORITHMS = (*ASYMMETRIC, *SYMMETRIC)
SHORTEST_SECRET = 32  # bytes of a shared secret
MOST_KEYS = 100


class JwtRules(NamedTuple):
    """The rules that a token must meet."""

    algorithm: str
    audience: str
    issuer: str | None = None
    claim: str = "sub"
    prefix: str = ""
    leeway_seconds: float = 30
    longest_seconds: float = 24 * 3600


class TokenKey(NamedTuple):
    """A key, and the credential of a principal whose token it signed: a digest of the key and the rules."""

    key: Any
    credential: str


TokenKeys = Mapping[str, TokenKey]  # by key id; the id "" fits every token


class JwtVerifier:
    """Verifies tokens with the keys in force. Safe from any thread."""

    def __init__(
        self, rules: JwtRules, keys: Callable[[], TokenKeys], missed: Callable[[], None] = lambda: None
    ) -> None:
        """`keys` returns the keys in force, never modified. `missed` is called when a key id is unknown."""
        self._rules, self._keys, self._missed = rules, keys, missed

    def holds(self, credential: str) -> bool:
        """Return whether the key behind a credential is still in force."""
        return any(each.credential == credential for each in self._keys().values())

    def verify(self, token: str, now: float, peer: Peer) -> Principal:
        """Return the principal of a token. Raises Unauthenticated."""
        if len(token) > LONGEST_TOKEN:
            raise Unauthenticated("the token is too long")
        claims, credential = self._claims(token)
        expires, issued = claims["exp"], claims.get("iat", now)
        if not isinstance(issued, int | float) or isinstance(issued, bool):
            raise Unauthenticated("the token does not hold")
        if expires - min(issued, now) > self._rules.longest_seconds:
            raise Unauthenticated("the token lives longer than jwt.longest_seconds admits")
        name = check_name(claims.get(self._rules.claim))
        expires_at = float(expires) + self._rules.leeway_seconds
        return Principal(check_name(self._rules.prefix + name), peer.address, "jwt", credential, expires_at, peer.door)

    def _claims(self, token: str) -> tuple[dict[str, Any], str]:
        jwt = pyjwt()
        try:
            found = self._key(jwt.get_unverified_header(token).get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                found.key,
                algorithms=[self._rules.algorithm],
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                leeway=self._rules.leeway_seconds,
                options={"require": ["exp", "aud"], "verify_aud": True, "verify_exp": True, "verify_nbf": True},
            )
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("the token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise Unauthenticated("the token does not hold") from None
        if not isinstance(claims.get("exp"), int | float):
            raise Unauthenticated("the token does not hold")
        return claims, found.credential

    def _key(self, key_id: object) -> TokenKey:
        keys = self._keys()
        if isinstance(key_id, str) and key_id in keys:
            return keys[key_id]
        if key_id is None and len(keys) == 1:
            return next(iter(keys.values()))
        if "" in keys:
            return keys[""]
        self._missed()
        raise Unauthenticated("the token names a key that is not known")


def shared_secret(rules: JwtRules, secret: bytes) -> JwtVerifier:
    """Return a verifier for tokens signed with a shared secret. Raises ValueError."""
    if rules.algorithm not in SYMMETRIC:
        raise ValueError(f"{rules.algorithm} needs public keys: name a file of them as jwks")
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(f"the secret has {len(secret)} bytes; it needs {SHORTEST_SECRET}")
    pyjwt()
    keys = {"": TokenKey(secret, _credential(rules, secret))}
    return JwtVerifier(rules, lambda: keys)


def public_keys(rules: JwtRules, jwks: str) -> TokenKeys:
    """Return the public keys of a JWKS document that may sign tokens. Raises ValueError."""
    if rules.algorithm not in ASYMMETRIC:
        raise ValueError(f"{rules.algorithm} needs a secret: name a file of it as secret_file")
    jwt, keys = pyjwt(), dict[str, TokenKey]()
    try:
        entries = json.loads(jwks)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError('it is no JWKS document: {"keys": [...]}') from None
    if isinstance(entries, list) and len(entries) > MOST_KEYS:
        raise ValueError(f"it holds {len(entries)} keys; at most {MOST_KEYS} are taken")
    for each in entries if isinstance(entries, list) else ():
        usable = isinstance(each, dict) and each.get("kty") == ASYMMETRIC[rules.algorithm]
        if not usable or each.get("use", "sig") != "sig" or each.get("alg", rules.algorithm) != rules.algorithm:
            continue
        if "d" in each:
            raise ValueError("it holds a private key; give the public ones alone")
        try:
            key = jwt.PyJWK(each, algorithm=rules.algorithm)
            said = json.dumps(each, sort_keys=True).encode()
            keys[str(each.get("kid", ""))] = TokenKey(key, _credential(rules, said))
        except (jwt.PyJWTError, ValueError, TypeError) as exc:
            raise ValueError(f"a key cannot be read: {type(exc).__name__}") from None
    if not keys:
        raise ValueError(f"it holds no key for {rules.algorithm}")
    return keys


def _credential(rules: JwtRules, key: bytes) -> str:
    return "jwt:" + hashlib.sha256(repr(rules).encode() + b"\0" + key).hexdigest()[:16]


def pyjwt() -> Any:
    """Import and return PyJWT. Raises MissingExtra."""
    try:
        import jwt
    except ImportError as exc:
        raise MissingExtra("checking a JWT", "access") from exc
    return jwt
