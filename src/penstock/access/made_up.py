"""Secrets made up for unknown names, in the forms that the secrets of real users have.

SCRAM sends the salt and the iterations of a name before the client proves anything, and hashing takes as long
as its parameters demand. To reveal neither way whether a name exists, an unknown name gets one of the forms
in the access file, each as often as among real users, and the same one while those forms stay, whichever
users come and go. The key from which they are derived is kept in the store, for all processes that serve it.
"""

import hashlib
import hmac
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

from penstock.database.database import Database, Transaction
from penstock.errors import Error
from penstock.redaction import words

from .password import PasswordHash
from .policy import User
from .scram import ITERATIONS, MECHANISMS, ScramSecret

logger = logging.getLogger("penstock.access")

Form = TypeVar("Form")
_SALT_BYTES = 16
_FACT = "made_up_key"  # its name in the table of facts about the store


class MadeUpSecrets:
    """Makes up secrets like those of some users. Immutable."""

    def __init__(self, users: Iterable[User], key: bytes) -> None:
        """`key`: known to this store alone; the same key makes up the same secrets."""
        self._key = key
        self._passwords = Counter[tuple[int, int, int, int]]()
        self._alone = Counter[tuple[tuple[str, int], ...]]()  # of users who have no other secret
        self._scram = {each: Counter[tuple[int, int]]() for each in MECHANISMS}
        for user in users:
            if user.password is not None:
                kept = user.password
                self._passwords[kept.cost, kept.block, kept.lanes, len(kept.hash)] += 1
            else:
                self._alone[tuple((each.mechanism, each.iterations) for each in user.scram.values())] += 1
            for each in user.scram.values():
                self._scram[each.mechanism][each.iterations, len(each.salt)] += 1

    def scram(self, mechanism: str, name: str) -> ScramSecret:
        """Return a secret that no password matches."""
        seed = self._seed(name)
        iterations, length = _chosen(self._scram[mechanism], seed) or (ITERATIONS, _SALT_BYTES)
        return _secret(mechanism, iterations, seed, length)

    def users(self, name: str) -> Iterator[User]:
        """Yield a user for each kind of secret in the access file; no password matches them."""
        seed = self._seed(name)
        if (password := _chosen(self._passwords, seed)) is not None:
            cost, block, lanes, length = password
            made_up = hashlib.shake_256(seed).digest(length)
            yield User(name, PasswordHash(cost, block, lanes, seed[:_SALT_BYTES], made_up))
        if (alone := _chosen(self._alone, seed)) is not None:
            made = {mechanism: _secret(mechanism, rounds, seed, _SALT_BYTES) for mechanism, rounds in alone}
            yield User(name, scram=made)

    def _seed(self, name: str) -> bytes:
        return hmac.digest(self._key, name.encode("utf-8", "surrogatepass"), "sha256")


def stored_key(database: Database) -> bytes:
    """Return the key of a store, made at first use; a new one where the store does not keep it."""
    made = os.urandom(32)

    def read(tx: Transaction) -> str:
        return "".join(value for (value,) in tx.rows("database", "meta_read", name=_FACT))

    try:
        if not database.look(read):
            database.run(lambda tx: tx.change("database", "meta_keep", name=_FACT, value=made.hex()))
        return bytes.fromhex(database.look(read))
    except Error as exc:
        logger.debug("names that nobody has get other salts at the next start: %s", words(exc))
        return made


def _secret(mechanism: str, iterations: int, seed: bytes, salt_bytes: int) -> ScramSecret:
    salt = hashlib.shake_256(seed + mechanism.encode()).digest(salt_bytes)
    key = hmac.digest(seed, salt, MECHANISMS[mechanism])
    return ScramSecret(mechanism, iterations, salt, key, key)


def _chosen(forms: "Counter[Form]", seed: bytes) -> Form | None:
    """Return one of some forms, drawn by weight; one form more or less changes the draw of few seeds."""

    def late(form: Form) -> float:
        drawn = int.from_bytes(hmac.digest(seed, repr(form).encode(), "sha256")[:7])
        return -math.log((drawn + 1) / 2**56) / forms[form]

    return min(forms, key=late, default=None)
