import subprocess
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import SettingOutOfRange, SettingsFileUnreadable, UnknownSetting, WrongSettingType
from penstock.model.limits import LimitsSettings
from penstock.model.partition import MAX_PARTITIONS
from penstock.model.retry_settings import RetrySettings
from penstock.settings import FILE, Settings, declared, read_file, setting
from tests.unit.ground.child import finish, start
from tests.unit.ground.sample_settings import OtherSettings, SampleSettings, only_rooms


def loaded(text: str = "", environ: dict[str, str] | None = None, **given: Any) -> SampleSettings:
    """Return the sample's settings from the text of a file, the environment and code."""
    Path(FILE).write_text(text, "utf-8")
    return SampleSettings.load(environ=environ or {}, **given)


def test_nothing_set_gives_the_defaults() -> None:
    assert SampleSettings.load(environ={}) == SampleSettings()
    assert asdict(SampleSettings()) == {
        "on": False,
        "count": 5,
        "ratio": 0.5,
        "name": "plain",
        "mode": "slow",
        "pause": timedelta(seconds=2),
        "listed": (),
    }


def test_the_file_wins_over_the_default_the_environment_over_the_file_and_code_over_all() -> None:
    text, environ = "[sample]\ncount = 10\n", {"PENSTOCK_SAMPLE_COUNT": "20"}

    assert loaded().count == 5
    assert loaded(text).count == 10
    assert loaded(text, environ).count == 20
    assert loaded(text, environ, count=30).count == 30


def test_none_in_code_means_not_given() -> None:
    assert loaded("[sample]\ncount = 10\n", count=None).count == 10


def test_each_source_keeps_what_the_next_one_leaves_out() -> None:
    both = loaded('[sample]\ncount = 10\nname = "file"\n', {"PENSTOCK_SAMPLE_NAME": "environment"}, on=True)

    assert (both.count, both.name, both.on, both.ratio) == (10, "environment", True, 0.5)


def test_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SAMPLE_COUNT", "20")

    assert SampleSettings.load().count == 20


def test_a_file_can_be_named(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text("[sample]\ncount = 10\n")

    assert SampleSettings.load(file=elsewhere, environ={}).count == 10
    assert SampleSettings.load(file=str(elsewhere), environ={}).count == 10


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[sample\n", "Expected"),
        (b"\xff\xfe", "codec can't decode"),
        (b"[sample]\ncount = 1\ncount = 2\n", "Cannot overwrite"),
        (b"n = " + b"9" * 5000, "Exceeds the limit"),
    ],
)
def test_a_file_that_is_no_toml_is_refused_by_its_path(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)

    with pytest.raises(SettingsFileUnreadable, match=f"settings file {path}: .*{why}"):
        SampleSettings.load(file=path, environ={})


@pytest.mark.parametrize("path", ["missing.toml", ".", "no\0path"])
def test_a_file_that_was_named_must_be_there(path: str) -> None:
    with pytest.raises(SettingsFileUnreadable):
        SampleSettings.load(file=path, environ={})


def test_without_a_file_there_are_no_tables() -> None:
    assert read_file() == (Path(FILE), {})


@pytest.mark.parametrize(
    ("source", "text", "given", "name"),
    [
        (FILE, "[sample]\ncuont = 1\n", {}, "sample.cuont"),
        (FILE, "[sample.puase]\nseconds = 1\n", {}, "sample.puase"),
        (FILE, "count = 1\n", {}, "count"),
        ("code", "", {"cuont": 1}, "sample.cuont"),
    ],
)
def test_a_name_nobody_declared_is_refused_with_those_there_are(
    source: str, text: str, given: dict[str, Any], name: str
) -> None:
    with pytest.raises(UnknownSetting) as refused:
        loaded(text, **given)

    message = str(refused.value)
    assert f"there is no setting '{name}'" in message
    assert message.startswith(source)
    assert "sample.count" in message or "tables such as" in message


WRONG_TYPES = [
    ("on", "maybe", "true or false"),
    ("on", "", "true or false"),
    ("count", "many", "a whole number"),
    ("count", "1.5", "a whole number"),
    ("count", "", "a whole number"),
    ("ratio", "half", "a number"),
    ("ratio", "nan", "a number"),
    ("ratio", "inf", "a number"),
    ("pause", "2s", "a timedelta, or a number of seconds"),
    ("pause", "nan", "a timedelta, or a number of seconds"),
    ("pause", "1e300", "a timedelta, or a number of seconds"),
]


@pytest.mark.parametrize(("name", "text", "wanted"), WRONG_TYPES)
def test_a_wrong_type_in_the_environment_names_variable_setting_value_and_type(
    name: str, text: str, wanted: str
) -> None:
    variable = f"PENSTOCK_SAMPLE_{name.upper()}"
    shown = text if name == "ratio" and text in ("nan", "inf") else repr(text)

    with pytest.raises(WrongSettingType) as refused:
        loaded(environ={variable: text})

    assert str(refused.value) == f"environment {variable}: sample.{name}={shown} must be {wanted}"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("on = 1", "true or false"),
        ('count = "many"', "a whole number"),
        ("count = 5.0", "a whole number"),
        ("count = true", "a whole number"),
        ("ratio = true", "a number"),
        ("ratio = nan", "a number"),
        ("ratio = [1]", "a number"),
        ("name = 5", "a string"),
        ("pause = true", "a timedelta, or a number of seconds"),
        ("pause = 12:00:00", "a timedelta, or a number of seconds"),
        ("listed = 5", "a list of strings"),
        ("listed = [5]", "a list of strings"),
        ("listed = {a = 1}", "a list of strings"),
    ],
)
def test_a_wrong_type_in_the_file_names_file_table_setting_and_type(line: str, wanted: str) -> None:
    name = line.partition(" ")[0]

    with pytest.raises(WrongSettingType) as refused:
        loaded(f"[sample]\n{line}\n")

    message = str(refused.value)
    assert message.startswith(f"{FILE} [sample]: sample.{name}=")
    assert message.endswith(f" must be {wanted}")


@pytest.mark.parametrize(
    "given", [{"on": 1}, {"count": "many"}, {"count": 5.0}, {"name": b"x"}, {"listed": [1]}, {"pause": "soon"}]
)
def test_a_wrong_type_in_code_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(WrongSettingType, match=f"^code: sample.{next(iter(given))}="):
        loaded(**given)


def test_a_settings_object_built_by_hand_is_checked_too() -> None:
    with pytest.raises(WrongSettingType, match=r"code: sample\.count='5' must be a whole number"):
        SampleSettings(count="5")  # type: ignore[arg-type]
    with pytest.raises(SettingOutOfRange, match=r"code: sample\.count=0 is out of range"):
        SampleSettings(count=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 0}, "sample.count=0 is out of range; it must be from 1 to 1000000"),
        ({"count": 1_000_001}, "sample.count=1000001 is out of range; it must be from 1 to 1000000"),
        ({"ratio": -0.1}, "sample.ratio=-0.1 is out of range; it must be at least 0"),
        ({"mode": "medium"}, "sample.mode='medium' is out of range; it must be one of slow, fast"),
        ({"pause": 0}, "sample.pause=datetime.timedelta(0) is out of range; it must be from 0.001 to 3600"),
        ({"pause": 3600.5}, "is out of range; it must be from 0.001 to 3600"),
    ],
)
def test_a_value_out_of_range_names_setting_value_and_range(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingOutOfRange) as refused:
        loaded(**given)

    assert message in str(refused.value)


def test_an_upper_bound_alone_is_named() -> None:
    with pytest.raises(SettingOutOfRange, match=r"it must be at most 9$"):
        OtherSettings(low=10)


@pytest.mark.parametrize(("name", "value"), [("count", 1), ("count", 1_000_000), ("ratio", 0), ("pause", 3600)])
def test_the_bounds_themselves_are_within_the_range(name: str, value: Any) -> None:
    loaded(**{name: value})


@pytest.mark.parametrize("word", ["true", "TRUE", "yes", "On", "1", " true "])
def test_words_for_true(word: str) -> None:
    assert loaded(environ={"PENSTOCK_SAMPLE_ON": word}).on is True


@pytest.mark.parametrize("word", ["false", "False", "no", "OFF", "0"])
def test_words_for_false(word: str) -> None:
    assert loaded("[sample]\non = true\n", {"PENSTOCK_SAMPLE_ON": word}).on is False


@pytest.mark.parametrize(
    ("raw", "seconds"), [("2", 2.0), ("0.5", 0.5), ("1e-3", 0.001), (2, 2.0), (0.25, 0.25), (timedelta(1 / 24), 3600.0)]
)
def test_a_duration_is_a_number_of_seconds(raw: Any, seconds: float) -> None:
    assert loaded(pause=raw).pause == timedelta(seconds=seconds)
    if not isinstance(raw, timedelta):
        assert loaded(environ={"PENSTOCK_SAMPLE_PAUSE": str(raw)}).pause == timedelta(seconds=seconds)
        assert loaded(f"[sample]\npause = {raw}\n").pause == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "expected"), [("", ()), ("a", ("a",)), ("a,b", ("a", "b")), (" a, b.C  d ", ("a", "b.C", "d")), (",", ())]
)
def test_a_list_stands_in_the_environment_with_commas_or_blanks(text: str, expected: tuple[str, ...]) -> None:
    assert loaded(environ={"PENSTOCK_SAMPLE_LISTED": text}).listed == expected


def test_a_list_stands_in_the_file_and_in_code_as_a_list() -> None:
    assert loaded('[sample]\nlisted = ["a b", "c"]\n').listed == ("a b", "c")
    assert loaded(listed=["a b", "c"]).listed == ("a b", "c")
    assert loaded(listed=("a b", "c")).listed == ("a b", "c")


def test_a_whole_number_may_stand_for_a_number() -> None:
    ratio = loaded("[sample]\nratio = 2\n").ratio

    assert ratio == 2
    assert isinstance(ratio, float)


def test_a_declared_setting_knows_its_names() -> None:
    one = next(each for each in OtherSettings.declared() if each.name == "any_number")

    assert (one.path, one.env) == ("other_room.any_number", "PENSTOCK_OTHER_ROOM_ANY_NUMBER")
    assert (one.kind, one.default, one.rule.help, one.rule.wanted()) == ("int", 0, "Any number.", "any")


def test_kinds_are_read_from_the_annotations() -> None:
    kinds = [one.kind for one in SampleSettings.declared()]

    assert kinds == ["bool", "int", "float", "str", "str", "timedelta", "tuple"]


def test_settings_cannot_be_changed() -> None:
    settings = SampleSettings()

    with pytest.raises(AttributeError):
        settings.count = 9  # type: ignore[misc]


def test_a_room_is_declared_once() -> None:
    with only_rooms(SampleSettings), pytest.raises(AssertionError, match="settings of sample are declared twice"):

        class Again(Settings, room="sample"):
            """The same room."""


def test_a_field_must_be_declared_with_setting() -> None:
    with only_rooms():

        class Bare(Settings, room="bare"):
            """A field without a rule."""

            number: int = 5

        with pytest.raises(AssertionError, match=r"bare\.number is not declared with setting\(\)"):
            Bare.declared()


def test_all_settings_are_listed_by_room_and_have_names_of_their_own() -> None:
    listed = declared()

    assert [one.room for one in listed] == sorted(one.room for one in listed)
    for names in ([one.path for one in listed], [one.env for one in listed]):
        assert len(set(names)) == len(names)


def test_every_default_is_within_its_own_range_and_has_a_help_text() -> None:
    for one in declared():
        assert one.rule.admits(one.default), one.path
        assert one.rule.help.endswith("."), one.path


def test_the_defaults_are_those_of_the_requirements() -> None:
    retry, limits = RetrySettings.load(environ={}), LimitsSettings.load(environ={})

    assert asdict(retry) == {
        "policy": "exponential",
        "max_retries": 3,
        "jitter": timedelta(0),
        "include_exceptions": (),
        "exclude_exceptions": (),
        "fixed_delay": timedelta(seconds=5),
        "linear_initial_delay": timedelta(seconds=2),
        "linear_increment": timedelta(seconds=2),
        "linear_max_delay": timedelta(seconds=60),
        "exponential_initial_delay": timedelta(seconds=2),
        "exponential_multiplier": 2.0,
        "exponential_max_delay": timedelta(seconds=60),
        "power_of_two_max_retries": 5,
    }
    assert (limits.event_bytes, limits.owner_bytes, MAX_PARTITIONS) == (1_048_576, 512, 10_000)


def test_nothing_is_read_at_import() -> None:
    Path(FILE).write_text("this is no TOML")
    program = "import penstock.settings, penstock.model.limits, penstock.model.retry_settings"

    child: subprocess.Popen[str] = start(program, PENSTOCK_LIMITS_EVENT_BYTES="wrong")

    assert finish(child) == ""


def test_setting_is_what_declares_a_field() -> None:
    with only_rooms():

        class OneSettings(Settings, room="one"):
            """A room."""

            number: int = setting(1, "A number.", at_least=1)

        assert [one.path for one in declared()] == ["one.number"]
