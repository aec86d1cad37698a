"""Secrets of names that nobody has: nothing that is answered, and no time, says that nobody has them."""

from collections import Counter
from pathlib import Path

import pytest

from penstock.access import password as passwords
from penstock.access import scram as scrams
from penstock.access.access import Access
from penstock.access.made_up import MadeUpSecrets, stored_key
from penstock.access.password import PasswordHash
from penstock.access.policy import AccessPolicy, User
from penstock.access.principal import Peer
from penstock.access.scram import ScramSecret
from penstock.database.migrations import migrate
from penstock.errors import Unauthenticated
from penstock.log.store import open_store

S256, S512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
KEY = b"k" * 32
NAMES = [f"nobody-{number}" for number in range(2000)]


def real(name: str, iterations: int, salt_bytes: int = 16, mechanism: str = S256) -> User:
    secret = ScramSecret(mechanism, iterations, bytes(salt_bytes), bytes(32), bytes(32))
    return User(name, scram={mechanism: secret})


def answered(access: Access, name: str, mechanism: str = S256) -> tuple[int, str]:
    """Return the iterations and the salt that a name is told."""
    said = access.scram(mechanism, Peer()).step(f"n,,n={name},r=abc".encode()).decode()
    _, salt, iterations = said.split(",")
    return int(iterations.removeprefix("i=")), salt.removeprefix("s=")


def access_of(*users: User) -> Access:
    return Access(AccessPolicy({each.name: each for each in users}), made_up_key=KEY)


@pytest.mark.parametrize(("iterations", "salt_bytes"), [(4096, 16), (600_000, 16), (32_768, 40)])
def test_a_name_that_nobody_has_is_told_the_iterations_and_a_salt_as_real_users_are(
    iterations: int, salt_bytes: int
) -> None:
    access = access_of(real("ana", iterations, salt_bytes), real("ben", iterations, salt_bytes))
    known = answered(access, "ana")
    found = {answered(access, name) for name in NAMES[:50]}
    assert {rounds for rounds, _ in found} == {iterations}
    assert {len(salt) for _, salt in found} == {len(known[1])}
    assert len({salt for _, salt in found}) == 50


def test_where_counts_differ_each_is_told_as_often_as_among_real_users() -> None:
    users = [real(f"old-{each}", 4096) for each in range(3)] + [real("new", 16_384)]
    counts = Counter(answered(access_of(*users), name)[0] for name in NAMES)
    assert set(counts) == {4096, 16_384}
    assert 0.7 < counts[4096] / len(NAMES) < 0.8  # the names are fixed, so the same at every run


def test_a_name_is_told_the_same_when_the_access_file_is_read_again_and_users_come_and_go() -> None:
    users = [real(f"u{each}", 4096 if each % 2 else 8192) for each in range(10)]
    access = access_of(*users)
    before = [answered(access, name) for name in NAMES]
    access.install(AccessPolicy({each.name: each for each in users}))
    assert [answered(access, name) for name in NAMES] == before
    access.install(AccessPolicy({each.name: each for each in [*users, real("late", 4096)]}))
    after = [answered(access, name) for name in NAMES]
    assert [salt for _, salt in after] == [salt for _, salt in before]
    others = sum(a != b for a, b in zip(after, before, strict=True))
    assert others < len(NAMES) / 10, "names would be known by their other count after each change"


def test_each_mechanism_is_told_as_its_own_secrets_are() -> None:
    access = access_of(real("ana", 4096), real("ben", 8192, 24, S512))
    for name in ("nobody", "ben"):  # who has no secret of the mechanism is answered as nobody is
        assert answered(access, name)[0] == 4096
    for name in ("nobody", "ana"):
        assert answered(access, name, S512)[0] == 8192


def test_every_process_that_serves_a_store_makes_up_the_same_and_another_store_others(tmp_path: Path) -> None:
    keys = []
    for name in ("one.db", "one.db", "two.db"):
        store = open_store(f"sqlite:///{tmp_path / name}")
        migrate(store.database)
        keys.append(stored_key(store.database))
        store.close()
    assert keys[0] == keys[1] != keys[2]
    assert {len(each) for each in keys} == {32}
    users = [real("ana", 4096)]
    made = [MadeUpSecrets(users, key).scram(S256, "nobody").salt for key in keys]
    assert made[0] == made[1] != made[2]


def test_a_password_is_hashed_alike_for_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    work: list[tuple[int, ...]] = []

    def scrypt(_: bytes, kept: PasswordHash) -> bytes:
        work.append((kept.cost, kept.block, kept.lanes))
        return bytes(32)

    def pbkdf2(mechanism: str, _: str, salt: bytes, iterations: int) -> ScramSecret:
        work.append((iterations,))
        return ScramSecret(mechanism, iterations, salt, b"", b"")

    monkeypatch.setattr(passwords, "_scrypt", scrypt)
    monkeypatch.setattr(scrams, "_secret", pbkdf2)
    kept = PasswordHash(17, 8, 2, bytes(16), b"x" * 32)
    access = access_of(User("ana", kept), real("ben", 600_000))
    done = {}
    for name in ("ana", "ben", "nobody"):
        work.clear()
        with pytest.raises(Unauthenticated, match="name or password is wrong"):
            access.authenticate_basic(name, "wrong", Peer())
        done[name] = sorted(work)
    assert done["ana"] == done["ben"] == done["nobody"] == [(17, 8, 2), (600_000,)]
