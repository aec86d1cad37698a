"""Misspelt names are found once all rooms are known."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import SettingsFileUnreadable, UnknownSetting
from penstock.settings import FILE, check_names
from tests.unit.ground.sample_settings import OtherSettings, SampleSettings, only_rooms


@pytest.fixture(autouse=True)
def _two_rooms() -> Iterator[None]:
    with only_rooms(SampleSettings, OtherSettings):
        yield


def test_a_misspelt_table_is_refused_with_the_tables_there_are() -> None:
    Path(FILE).write_text("[smaple]\ncount = 1\n")

    with pytest.raises(UnknownSetting) as refused:
        check_names(environ={})

    assert str(refused.value) == f"{FILE}: there is no setting '[smaple]'; there are [other_room], [sample]"


def test_a_misspelt_key_is_refused_with_the_keys_of_its_table() -> None:
    Path(FILE).write_text("[sample]\ncuont = 1\n")

    with pytest.raises(
        UnknownSetting, match=r"there is no setting 'sample\.cuont'; there are sample\.on, sample"
    ):
        check_names(environ={})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PENSTOCK_SAMPLE_CUONT", "PENSTOCK_SAMPLE_COUNT"),
        ("PENSTOCK_SAMPLE_NOTHING_LIKE_IT", "PENSTOCK_SAMPLE_COUNT"),
        ("PENSTOCK_SMAPLE_COUNT", "PENSTOCK_SAMPLE_COUNT"),
        ("PENSTOCK_OTHERROOM_ANY_NUMBER", "PENSTOCK_OTHER_ROOM_ANY_NUMBER"),
    ],
)
def test_a_misspelt_variable_is_refused_with_what_was_meant(name: str, meant: str) -> None:
    with pytest.raises(UnknownSetting) as refused:
        check_names(environ={name: "1"})

    assert f"environment: there is no setting '{name}'" in str(refused.value)
    assert meant in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "PENSTOCK_URL",
        "PENSTOCK_SERVICE_HOST",
        "PENSTOCK_PORT_8420_TCP_ADDR",
        "PATH",
        "SAMPLE_COUNT",
        "PENSTOCK_",
    ],
)
def test_names_that_others_own_are_left_alone(name: str) -> None:
    check_names(environ={name: "1"})


def test_the_environment_of_the_process_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    check_names()
    monkeypatch.setenv("PENSTOCK_SAMPLE_CUONT", "1")

    with pytest.raises(UnknownSetting):
        check_names()


def test_right_names_pass() -> None:
    Path(FILE).write_text("[sample]\ncount = 1\n[other_room]\nlow = 1\n")

    check_names(environ={"PENSTOCK_SAMPLE_COUNT": "2", "PENSTOCK_OTHER_ROOM_LOW": "2"})


def test_a_named_file_must_be_there() -> None:
    with pytest.raises(SettingsFileUnreadable, match=r"missing\.toml: there is no such file"):
        check_names("missing.toml", {})
