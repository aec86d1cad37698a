"""Attacks on the places of every door, with an honest producer and consumer beside each."""

from collections.abc import Iterator

import pytest

from tests.access.attack_table import ATTACKS, Attack
from tests.access.doors import DOORS, Door
from tests.access.hogs import HOG_KINDS
from tests.access.honest import Honest
from tests.access.house import House

PLACES, TOTAL_BYTES = 12, 20 << 20


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Give a house with few places."""
    with House(tmp_path_factory.mktemp("small"), places=PLACES, total_bytes=TOTAL_BYTES) as made:
        yield made


@pytest.mark.parametrize(
    ("attack", "door"),
    [
        pytest.param(attack, door, id=f"{door.name}: {attack.name}")
        for attack in ATTACKS
        for door in DOORS
        if attack.kind in HOG_KINDS and hasattr(door, attack.kind)
    ],
)
def test_who_takes_all_places_of_a_door_shuts_nobody_out(attack: Attack, door: Door, small: House) -> None:
    with Honest(small, door) as honest:
        assert getattr(door, attack.kind)(small) == attack.right
    print(f"{door.name}: {attack.name}: {honest}")
