"""JSON Web Tokens: one pinned algorithm, keys from a file, expiry and audience always checked.

What a token says of itself chooses nothing but which of our keys is tried (`kid`, as a key of a dict): not
the algorithm, not a file, not an address. PyJWT does the cryptography; this adds what it accepts and we do
not: very long tokens, tokens that live for ever, names that deceive.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.errors import MissingExtra, Unauthenticated

from .principal import Peer, Principal, check_name

LONGEST_TOKEN = 8 * 1024  # characters
ASYMMETRIC = {"RS256": "RSA", "RS512": "RSA", "PS256": "RSA", "ES256": "EC", "ES384": "EC", "EdDSA": "OKP"}
SYMMETRIC = ("HS256", "HS384", "HS512")
ALGORITHMS = (*ASYMMETRIC, *SYMMETRIC)
SHORTEST_SECRET = 32  # bytes of a secret that is shared


class JwtRules(NamedTuple):
    """What a token has to be."""

    algorithm: str
    audience: str
    issuer: str | None = None
    claim: str = "sub"
    prefix: str = ""
    leeway_seconds: float = 30
    longest_seconds: float = 24 * 3600


class JwtVerifier:
    """Checks tokens by some keys. Safe from any thread; never changes."""

    def __init__(self, rules: JwtRules, keys: Mapping[str, Any], fingerprint: str) -> None:
        """`keys`: by key id; "" is for every token. `fingerprint`: of rules and keys."""
        self._rules, self._keys, self.fingerprint = rules, dict(keys), fingerprint

    def verify(self, token: str, now: float, peer: Peer) -> Principal:
        """Return who a token was given to. Raises Unauthenticated."""
        if len(token) > LONGEST_TOKEN:
            raise Unauthenticated("the token is too long")
        claims = self._claims(token)
        expires, issued = claims["exp"], claims.get("iat", now)
        if not isinstance(issued, int | float) or isinstance(issued, bool):
            raise Unauthenticated("the token does not hold")
        if expires - min(issued, now) > self._rules.longest_seconds:
            raise Unauthenticated("the token lives longer than jwt.longest_seconds admits")
        name = check_name(claims.get(self._rules.claim))
        expires_at = float(expires) + self._rules.leeway_seconds
        return Principal(
            check_name(self._rules.prefix + name),
            peer.address,
            "jwt",
            self.fingerprint,
            expires_at,
            peer.door,
        )

    def _claims(self, token: str) -> dict[str, Any]:
        jwt = _pyjwt()
        try:
            head = jwt.get_unverified_header(token)
            key = self._key(head.get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[self._rules.algorithm],
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                leeway=self._rules.leeway_seconds,
                options={
                    "require": ["exp", "aud"],
                    "verify_aud": True,
                    "verify_exp": True,
                    "verify_nbf": True,
                },
            )
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("the token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise Unauthenticated("the token does not hold") from None
        if not isinstance(claims.get("exp"), int | float):
            raise Unauthenticated("the token does not hold")
        return claims

    def _key(self, key_id: object) -> Any:
        if isinstance(key_id, str) and key_id in self._keys:
            return self._keys[key_id]
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if "" in self._keys:
            return self._keys[""]
        raise Unauthenticated("the token names a key that is not known")


def shared_secret(rules: JwtRules, secret: bytes) -> JwtVerifier:
    """Return what checks tokens by a secret that is shared. Raises ValueError."""
    if rules.algorithm not in SYMMETRIC:
        raise ValueError(f"{rules.algorithm} needs public keys: name a file of them as jwks")
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(f"the secret has {len(secret)} bytes; it needs {SHORTEST_SECRET}")
    _pyjwt()
    return JwtVerifier(rules, {"": secret}, _fingerprint(rules, secret))


def public_keys(rules: JwtRules, jwks: str) -> JwtVerifier:
    """Return what checks tokens by the public keys of a JWKS document. Raises ValueError."""
    if rules.algorithm not in ASYMMETRIC:
        raise ValueError(f"{rules.algorithm} needs a secret: name a file of it as secret_file")
    jwt, keys = _pyjwt(), dict[str, Any]()
    try:
        entries = json.loads(jwks)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError('it is no JWKS document: {"keys": [...]}') from None
    for each in entries if isinstance(entries, list) else ():
        usable = isinstance(each, dict) and each.get("kty") == ASYMMETRIC[rules.algorithm]
        if (
            not usable
            or each.get("use", "sig") != "sig"
            or each.get("alg", rules.algorithm) != rules.algorithm
        ):
            continue
        if "d" in each:
            raise ValueError("it holds a private key; give the public ones alone")
        try:
            keys[str(each.get("kid", ""))] = jwt.PyJWK(each, algorithm=rules.algorithm)
        except (jwt.PyJWTError, ValueError, TypeError) as exc:
            raise ValueError(f"a key cannot be read: {type(exc).__name__}") from None
    if not keys:
        raise ValueError(f"it holds no key for {rules.algorithm}")
    return JwtVerifier(rules, keys, _fingerprint(rules, jwks.encode()))


def _fingerprint(rules: JwtRules, keys: bytes) -> str:
    return "jwt:" + hashlib.sha256(repr(rules).encode() + b"\0" + keys).hexdigest()[:16]


def _pyjwt() -> Any:
    try:
        import jwt
    except ImportError as exc:
        raise MissingExtra("checking a JWT", "access") from exc
    return jwt
