"""A room of settings with one of each kind, declared without a trace in the real table."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import patch

from penstock import settings
from penstock.settings import Settings, setting


@contextmanager
def only_rooms(*rooms: type[Settings]) -> Iterator[None]:
    """Let these be all rooms there are; what is declared inside is forgotten afterwards."""
    with (
        patch.object(Settings, "_rooms", {room.room: room for room in rooms}),
        patch.object(settings, "_written_down", tuple),
    ):
        yield


with only_rooms():

    class SampleSettings(Settings, room="sample"):
        """One setting of each kind."""

        on: bool = setting(False, "A switch.")
        count: int = setting(5, "A number of things.", at_least=1, at_most=1_000_000)
        ratio: float = setting(0.5, "A share.", at_least=0)
        name: str = setting("plain", "A name.")
        mode: str = setting("slow", "One of two.", choices=("slow", "fast"))
        pause: timedelta = setting(timedelta(seconds=2), "A duration.", at_least=0.001, at_most=3600)
        listed: tuple[str, ...] = setting((), "Some names.")

    class OtherSettings(Settings, room="other_room"):
        """A second room, whose name has two words."""

        any_number: int = setting(0, "Any number.")
        low: int = setting(0, "At most nine.", at_most=9)
