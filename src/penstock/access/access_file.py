"""The access file: TOML with users, tokens and rules, one rule a line. docs/how-to/access.md shows it.

| key              | says                                                                               |
|------------------|------------------------------------------------------------------------------------|
| `anonymous`      | whether clients without a credential may ask; default: only if no names are given  |
| `rules`          | text, a rule a line (`rule.py`); from `#` on a line is a comment; must be there     |
| `[users.NAME]`   | `password`, `scram-sha-256`, `scram-sha-512`: what `penstock access hash` prints   |
| `[tokens.NAME]`  | `hash`, or `hashes` while one takes the place of another                           |
| `[jwt]`          | `algorithm`, `audience`, `jwks`, `jwks_url` or `secret_file`; `issuer`, `claim`,   |
|                  | `prefix`, `leeway_seconds`, `longest_seconds`; for a URL `jwks_ca`,                |
|                  | `jwks_refresh_seconds`, `jwks_stale_seconds`                                       |
| `[certificates]` | `field` (cn, dns, uri, email) and `prefix` of a name                               |
| `[[limits]]`     | `principal`, `topic`; `bytes_per_second`, `requests_per_second`, `burst_seconds`;  |
|                  | `shared`, when all that match share one bucket                                     |

An unknown key is refused: a rule that is ignored is worse than a file that is refused. Messages name keys and
lines, never values.
"""

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from penstock.clock import SYSTEM, Clock
from penstock.errors import InvalidAccessFile, Unauthenticated

from .certificates import FIELDS, CertificateNames
from .json_web_token import ALGORITHMS, ASYMMETRIC, JwtRules, JwtVerifier, public_keys, shared_secret
from .password import parse_password_hash, parse_token_hash
from .policy import AccessPolicy, User
from .principal import check_name
from .rate_limits import RateLimit
from .remote_keys import REFRESH_SECONDS, STALE_SECONDS, KeysUrl, RemoteKeys
from .rule import AccessRule, parse_rule
from .scram import MECHANISMS, parse_scram_secret

_TOP = {"anonymous", "rules", "users", "tokens", "jwt", "certificates", "limits"}
_JWT_KEYS = ("jwks", "jwks_url", "secret_file")  # one of them
_JWT_OF_URL = {"jwks_refresh_seconds": (10, 24 * 3600), "jwks_stale_seconds": (60, 7 * 24 * 3600)}
_JWT_TEXTS = ("algorithm", "audience", *_JWT_KEYS, "jwks_ca", "issuer", "claim", "prefix")
_JWT_NUMBERS = ("leeway_seconds", "longest_seconds", *_JWT_OF_URL)
_LIMIT_NUMBERS = ("bytes_per_second", "requests_per_second", "burst_seconds")
_MOST_LEEWAY = 60


class AccessFile:
    """One reading of an access file and of the files that it names."""

    def __init__(self, path: Path, clock: Clock = SYSTEM) -> None:
        self._path, self._clock = path, clock
        self.read: dict[Path, bytes] = {}  # the contents of every file that was read

    def load(self) -> AccessPolicy:
        """Return the policy in the file. Raises InvalidAccessFile, InvalidRule, MissingExtra."""
        text = self._text(self._path)
        try:
            tables = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as exc:
            text = str(exc)  # it may quote a key, never a value
            place = text[text.rfind("(") :] if "(at " in text else ""
            raise self._wrong(f"it is no TOML {place}".strip()) from None
        self._know("the file", tables, _TOP)
        users, tokens = dict(self._users(tables)), dict(self._tokens(tables))
        jwt, remote = self._jwt(tables)
        anonymous = tables.get("anonymous", not (users or tokens or jwt or "certificates" in tables))
        if not isinstance(anonymous, bool):
            raise self._wrong("anonymous is true or false")
        return AccessPolicy(
            users=users,
            tokens=tokens,
            jwt=jwt,
            remote_keys=remote,
            certificates=self._certificates(tables),
            rules=tuple(self._rules(tables, text)),
            limits=tuple(self._limits(tables)),
            admits_anonymous=anonymous,
        )

    def _rules(self, tables: Mapping[str, Any], text: str) -> Iterator[AccessRule]:
        if "rules" not in tables:  # a file that is half written must not open every door
            raise self._wrong('it has no rules; rules = "" lets all who are known do everything')
        lines = tables["rules"]
        if not isinstance(lines, str) or "\\" in lines:
            raise self._wrong('rules is a text of several lines: rules = """…""", without backslashes')
        first = text.count("\n", 0, text.find(lines)) + 1 if lines else 1
        for number, line in enumerate(lines.split("\n"), first):
            rule = line.partition("#")[0].strip()
            if rule:
                yield parse_rule(rule, f"{self._path}:{number}")

    def _users(self, tables: Mapping[str, Any]) -> Iterator[tuple[str, User]]:
        names = {each.lower(): each for each in MECHANISMS}
        for name, table in self._named(tables, "users"):
            self._know(f"[users.{name}]", table, {"password", *names})
            password = None
            if "password" in table:
                password = parse_password_hash(str(table["password"]))
                if password is None:
                    raise self._wrong(f"[users.{name}] password is not what `penstock access hash` prints")
            scram = {}
            for key, mechanism in names.items():
                if key in table:
                    secret = parse_scram_secret(str(table[key]))
                    if secret is None or secret.mechanism != mechanism:
                        raise self._wrong(f"[users.{name}] {key} is not what `penstock access hash` prints")
                    scram[mechanism] = secret
            if password is None and not scram:
                raise self._wrong(f"[users.{name}] has no password; make one with: penstock access hash {name}")
            yield name, User(name, password, scram)

    def _tokens(self, tables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for name, table in self._named(tables, "tokens"):
            self._know(f"[tokens.{name}]", table, {"hash", "hashes"})
            hashes = table.get("hashes", [table["hash"]] if "hash" in table else [])
            if not isinstance(hashes, list) or not hashes:
                raise self._wrong(f"[tokens.{name}] has no hash; make one with: penstock access hash --token")
            for each in hashes:
                digest = parse_token_hash(str(each))
                if digest is None:
                    raise self._wrong(f"[tokens.{name}] a hash is not what `penstock access hash --token` prints")
                yield digest, name

    def _jwt(self, tables: Mapping[str, Any]) -> tuple[JwtVerifier | None, RemoteKeys | None]:
        table = tables.get("jwt")
        if table is None:
            return None, None
        self._know("[jwt]", table, {*_JWT_TEXTS, *_JWT_NUMBERS})
        given: dict[str, Any] = {key: self._string("[jwt]", table, key) for key in _JWT_TEXTS if key in table}
        given |= {key: self._number("[jwt]", table, key) for key in _JWT_NUMBERS if key in table}
        if given.get("algorithm") not in ALGORITHMS or not given.get("audience"):
            raise self._wrong(f"[jwt] needs audience, and algorithm, one of {', '.join(ALGORITHMS)}")
        if given.get("leeway_seconds", 0) > _MOST_LEEWAY:
            raise self._wrong(f"[jwt] leeway_seconds is at most {_MOST_LEEWAY}")
        named = [key for key in _JWT_KEYS if key in given]
        if len(named) != 1:
            raise self._wrong("[jwt] needs jwks, jwks_url or secret_file, and only one of them")
        of_url = {key: given.pop(key) for key in ("jwks_ca", *_JWT_OF_URL) if key in given}
        (kind,) = named
        source = given.pop(kind)
        rules, place = JwtRules(**given), self._path
        try:
            if kind == "jwks_url":
                remote = self._remote_keys(rules, source, of_url)
                return remote.verifier, remote
            if of_url:
                raise self._wrong(f"[jwt] {next(iter(of_url))} is of use with jwks_url only")
            place = self._path.parent / source
            if kind == "secret_file":
                refuse_readable(place)
                return shared_secret(rules, self._bytes(place).strip()), None
            keys = public_keys(rules, self._text(place))
            return JwtVerifier(rules, lambda: keys), None
        except ValueError as exc:
            raise InvalidAccessFile(str(place), str(exc)) from None

    def _remote_keys(self, rules: JwtRules, url: str, given: dict[str, Any]) -> RemoteKeys:
        if rules.algorithm not in ASYMMETRIC:
            raise self._wrong(f"[jwt] {rules.algorithm} needs a secret: name a file of it as secret_file")
        for key, (least, most) in _JWT_OF_URL.items():
            if not least <= given.get(key, least) <= most:
                raise self._wrong(f"[jwt] {key} is from {least} to {most}")
        refresh = given.get("jwks_refresh_seconds", REFRESH_SECONDS)
        stale = given.get("jwks_stale_seconds", STALE_SECONDS)
        if stale < refresh:
            raise self._wrong("[jwt] jwks_stale_seconds is at least jwks_refresh_seconds")
        authority = self._text(self._path.parent / given.pop("jwks_ca")) if "jwks_ca" in given else ""
        return RemoteKeys(rules, KeysUrl(url, authority, refresh, stale), self._clock)

    def _certificates(self, tables: Mapping[str, Any]) -> CertificateNames:
        table = tables.get("certificates", {})
        self._know("[certificates]", table, {"field", "prefix"})
        made = CertificateNames(**{key: self._string("[certificates]", table, key) for key in table})
        if made.field not in FIELDS:
            raise self._wrong(f"[certificates] field is one of {', '.join(FIELDS)}")
        return made

    def _limits(self, tables: Mapping[str, Any]) -> Iterator[RateLimit]:
        limits = tables.get("limits", [])
        if not isinstance(limits, list):
            raise self._wrong("limits are written as [[limits]]")
        for table in limits:
            self._know("[[limits]]", table, {"principal", "topic", "shared", *_LIMIT_NUMBERS})
            numbers = {key: self._number("[[limits]]", table, key) for key in _LIMIT_NUMBERS if key in table}
            words = {key: table.get(key, "*") for key in ("principal", "topic")}
            if any(not isinstance(each, str) or "*" in each[:-1] for each in words.values()):
                raise self._wrong("[[limits]] principal and topic are names or prefixes such as orders.*")
            shared = table.get("shared", False)
            if not isinstance(shared, bool):
                raise self._wrong("[[limits]] shared is true or false")
            yield RateLimit(**words, **numbers, shared=shared)  # type: ignore[arg-type]

    def _named(self, tables: Mapping[str, Any], key: str) -> Iterator[tuple[str, Any]]:
        table = tables.get(key, {})
        if not isinstance(table, dict):
            raise self._wrong(f"{key} are written as [{key}.NAME]")
        for name, each in table.items():
            try:
                check_name(name)
            except Unauthenticated:
                raise self._wrong(f"[{key}.…]: {name[:80]!r} is no name of a principal") from None
            yield name, each

    def _know(self, where: str, table: Any, known: set[str]) -> None:
        if not isinstance(table, dict):
            raise self._wrong(f"{where} is a table")
        if unknown := sorted(set(table) - known):
            names = ", ".join(sorted(known))
            raise self._wrong(f"{where} has a key {unknown[0][:80]!r} that is not known; there are {names}")

    def _string(self, where: str, table: Mapping[str, Any], key: str) -> str:
        if not isinstance(table[key], str):
            raise self._wrong(f"{where} {key} is a string")
        return str(table[key])

    def _number(self, where: str, table: Mapping[str, Any], key: str) -> float:
        value = table[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise self._wrong(f"{where} {key} is a number of at least 0")
        return float(value)

    def _text(self, path: Path) -> str:
        try:
            return self._bytes(path).decode().replace("\r\n", "\n")
        except UnicodeDecodeError:
            raise InvalidAccessFile(str(path), "it is not UTF-8") from None

    def _bytes(self, path: Path) -> bytes:
        try:
            self.read[path] = path.read_bytes()
        except FileNotFoundError:
            self.read[path] = b""
            why = "there is no such file; write it, or correct its path where it is named"
            raise InvalidAccessFile(str(path), why) from None
        except (OSError, ValueError) as exc:
            self.read[path] = b""
            raise InvalidAccessFile(str(path), getattr(exc, "strerror", None) or "it cannot be read") from None
        return self.read[path]

    def _wrong(self, why: str) -> InvalidAccessFile:
        return InvalidAccessFile(str(self._path), why)


def refuse_readable(path: Path) -> None:
    """Refuse a file with a secret that every user of the machine may read. Raises InvalidAccessFile."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # reading the file will report the reason
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise InvalidAccessFile(str(path), f"everybody may read it; run: chmod o-rw {quote(str(path))}")
