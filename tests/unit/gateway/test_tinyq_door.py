"""Who gets in at the TinyQ port, beside somebody at the same address who guesses."""

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.access.access import Access
from penstock.access.password import token_digest
from penstock.access.policy import AccessPolicy
from penstock.access.principal import Peer
from penstock.database.migrations import migrate
from penstock.errors import Unauthenticated
from penstock.gateway.settings import TinyqSettings
from penstock.gateway.tinyq.door import TinyqDoor
from penstock.log.store import open_store
from penstock.testing import FakeClock

PASSWORD, TOKEN = (hashlib.sha256(each).hexdigest() for each in (b"secret", b"another"))
HERE = Peer("10.0.0.1", "tinyq")


@pytest.fixture(params=[PASSWORD, ""], ids=["with a password", "with tokens alone"])
def door(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TinyqDoor]:
    """Give a door that takes a token, and perhaps a password."""
    access = Access(AccessPolicy(tokens={token_digest(TOKEN): "bot"}), clock=FakeClock())
    with closing(open_store(f"sqlite:///{tmp_path}/shop.db")) as store:
        migrate(store.database)
        settings = TinyqSettings.load(password_sha256=request.param)
        with closing(TinyqDoor(store, access=access, settings=settings)) as made:
            yield made


def test_a_client_that_shows_what_is_wrong_locks_out_nobody_and_its_guesses_take_turns(
    door: TinyqDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def story() -> list[str]:
        for number in range(54):
            with pytest.raises(Unauthenticated, match=r"is wrong|not known"):
                await door.authenticate(hashlib.sha256(b"%d" % number).hexdigest(), HERE)
        secrets = [TOKEN, TOKEN, *([PASSWORD] * 2 if door.tinyq.password_sha256 else [])]
        return [(await door.authenticate(each, HERE)).name for each in secrets]

    monkeypatch.setattr("penstock.gateway.tinyq.door.asyncio.sleep", sleep)
    known = asyncio.run(story())
    assert known[:2] == ["bot", "bot"]
    assert len(set(known[2:])) <= 1
    assert waited[:54] == [0.0] * 51 + [0.25, 0.5, 0.75]
    assert waited[54:] == [1.0, 0.0, 1.25, 0.0][: len(known)], "what was right here does not wait again"
