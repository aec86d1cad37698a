"""Misspelt names are found once all rooms are known."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import SettingsFileUnreadable, UnknownSetting
from penstock.settings import FILE, check_names
from tests.unit.cli.program import penstock
from tests.unit.ground.sample_settings import OtherSettings, SampleSettings, only_rooms


@pytest.fixture(autouse=True)
def _two_rooms() -> Iterator[None]:
    with only_rooms(SampleSettings, OtherSettings):
        yield


def test_a_misspelt_table_is_refused_with_the_tables_there_are() -> None:
    Path(FILE).write_text("[smaple]\ncount = 1\n")

    with pytest.raises(UnknownSetting) as refused:
        check_names(environ={})

    assert str(refused.value) == f"{FILE}: there is no setting '[smaple]'; known settings: [other_room], [sample]"


def test_a_misspelt_key_is_refused_with_the_keys_of_its_table() -> None:
    Path(FILE).write_text("[sample]\ncuont = 1\n")

    with pytest.raises(
        UnknownSetting, match=r"there is no setting 'sample\.cuont'; known settings: sample\.on, sample"
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
        "PENSTOCK_SAMPLE_SERVICE_HOST",
        "PENSTOCK_SAMPLE_SERVICE_PORT_HTTP",
        "PENSTOCK_SAMPLE_PORT",
        "PENSTOCK_SAMPLE_PORT_8420_TCP_ADDR",
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


def test_one_file_serves_an_application_and_a_gateway_that_it_does_not_import(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[gateway]\nconnections = 5\n[files]\ndurability = 'os'\n")
    program = "import sys, penstock; penstock.Outbox('sqlite:///x.db'); print('penstock.gateway' in sys.modules)"

    found = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)

    assert (found.stdout, found.stderr) == ("False\n", "")


def test_a_command_warns_of_a_misspelt_variable_with_what_is_near() -> None:
    environ = os.environ | {"PENSTOCK_GATEWAY_CONECTIONS": "3", "PENSTOCK_SERVICE_HOST": "10.0.0.1"}

    found = subprocess.run(penstock("topics", "list", "--url", "sqlite:///no.db"), env=environ, capture_output=True)

    warning, error = found.stderr.decode().splitlines()
    assert warning == (
        "warning: there is no setting PENSTOCK_GATEWAY_CONECTIONS; did you mean PENSTOCK_GATEWAY_CONNECTIONS?"
    )
    assert error.startswith("error: there is no store")
