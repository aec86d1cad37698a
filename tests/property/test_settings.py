from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SettingError
from penstock.settings import FILE, read_file
from tests.property.strategies import json_values, texts
from tests.unit.ground.sample_settings import SampleSettings

variables = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
names = st.sampled_from([one.name for one in SampleSettings.declared()])


def from_environment(name: str, text: str) -> Any:
    """Return a setting as the environment alone gives it."""
    settings = SampleSettings.load(environ={f"PENSTOCK_SAMPLE_{name.upper()}": text})
    return getattr(settings, name)


@given(st.integers(1, 1_000_000))
def test_a_whole_number_is_read_from_its_text(number: int) -> None:
    assert from_environment("count", str(number)) == number


@given(st.floats(0, allow_infinity=False))
def test_a_number_is_read_from_its_text(number: float) -> None:
    assert from_environment("ratio", repr(number)) == number


@given(st.timedeltas(timedelta(milliseconds=1), timedelta(hours=1)))
def test_a_duration_is_read_from_its_seconds_to_the_microsecond(span: timedelta) -> None:
    assert from_environment("pause", repr(span.total_seconds())) == span
    assert SampleSettings.load(environ={}, pause=span.total_seconds()).pause == span


@given(variables)
def test_a_string_is_read_as_it_is(text: str) -> None:
    assert from_environment("name", text) == text


@given(st.lists(st.text("abc._XYZ0", min_size=1)), st.sampled_from([",", " ", ", ", " ,\t"]))
def test_a_list_is_read_from_its_names(listed: list[str], between: str) -> None:
    assert from_environment("listed", between.join(listed)) == tuple(listed)


@given(st.booleans(), st.lists(st.booleans(), min_size=5, max_size=5))
def test_a_switch_is_read_in_any_case(on: bool, upper: list[bool]) -> None:
    word = "true" if on else "false"
    written = "".join(letter.upper() if up else letter for letter, up in zip(word, upper, strict=False))

    assert from_environment("on", written + word[len(written) :]) is on


@given(names, variables)
def test_any_text_in_the_environment_is_taken_or_refused_by_name(name: str, text: str) -> None:
    try:
        value = from_environment(name, text)
    except SettingError as error:
        assert f"PENSTOCK_SAMPLE_{name.upper()}: sample.{name}=" in str(error)  # noqa: PT017
    else:
        assert SampleSettings(**{name: value}) is not None


@given(names, json_values | st.floats() | st.timedeltas())
def test_any_value_in_code_is_taken_or_refused_by_name(name: str, value: Any) -> None:
    try:
        settings = SampleSettings.load(environ={}, **{name: value})
    except SettingError as error:
        assert f"code: sample.{name}=" in str(error)  # noqa: PT017
    else:
        assert SampleSettings(**{name: getattr(settings, name)}) == settings


@given(st.binary() | texts.map(lambda text: b"[sample]\n" + text.encode()))
def test_any_file_gives_tables_or_is_refused(content: bytes) -> None:
    Path(FILE).write_bytes(content)

    try:
        read_file()
        SampleSettings.load(environ={})
    except SettingError as error:
        assert FILE in str(error)  # noqa: PT017
