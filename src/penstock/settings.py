"""Settings: declared once, and read from the file, the environment, flags and code.

A room declares its settings as a class, the only place for name, type, default, range and help. The keys of
`penstock.toml`, the environment variables and the reference page (`declared`) are derived from it.

    class SequencerSettings(Settings, room="sequencer"):
        batch_records: int = setting(500, "Most staged rows moved in one transaction.", at_least=1)

    SequencerSettings.load()                   # default < penstock.toml < PENSTOCK_SEQUENCER_BATCH_RECORDS
    SequencerSettings.load(batch_records=50)   # < code or flag

Settings are read when `load` is called, never at import. A refusal names the setting, the value, the range
and the source of the value.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

from penstock.errors import SettingOutOfRange, SettingsFileUnreadable, UnknownSetting, WrongSettingType

FILE = "penstock.toml"
NAMES = Path(__file__).with_name("settings_names.txt")  # of every room's settings; by `tools.reference`
_INFINITE = float("inf")
_OF_SERVICE = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$")
_RULE = "penstock"  # the key of a field's metadata that holds its Rule
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Rule:
    """The help and the range of one setting."""

    help: str
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()

    def admits(self, value: Any) -> bool:
        """Return whether a value of the right type is within the range."""
        if self.choices:
            return value in self.choices
        size = value.total_seconds() if isinstance(value, timedelta) else value
        return (self.at_least is None or size >= self.at_least) and (self.at_most is None or size <= self.at_most)

    def wanted(self) -> str:
        """Return the range in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.at_least is not None and self.at_most is not None:
            return f"from {self.at_least} to {self.at_most}"
        if self.at_least is not None:
            return f"at least {self.at_least}"
        if self.at_most is not None:
            return f"at most {self.at_most}"
        return "any"


def setting(
    default: Any,
    help: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare one setting of a Settings class. Ranges of a duration are in seconds."""
    return field(default=default, metadata={_RULE: Rule(help, at_least, at_most, choices)})


@dataclass(frozen=True, slots=True)
class Declared:
    """One setting, for the reference page."""

    room: str
    name: str
    kind: str
    default: Any
    rule: Rule

    @property
    def path(self) -> str:
        """The dotted name in messages; in the file it is `[room]`, then `name`."""
        return f"{self.room}.{self.name}"

    @property
    def env(self) -> str:
        """The environment variable's name."""
        return _variable(self.path)


# `setting` is not a field specifier here: a type checker would then look for `default=` and miss ours.
@dataclass_transform(frozen_default=True, kw_only_default=True)
class Settings:
    """Base of a room's settings: subclass it with `room=...` and declare each field with `setting`."""

    room: ClassVar[str]
    _rooms: ClassVar[dict[str, type["Settings"]]] = {}

    def __init_subclass__(cls, *, room: str) -> None:
        assert room not in Settings._rooms, f"settings of {room} are declared twice"
        cls.room = room
        dataclass(frozen=True, kw_only=True)(cls)
        Settings._rooms[room] = cls

    def __post_init__(self) -> None:
        for one in self.declared():
            _check(one, getattr(self, one.name), "code")

    @classmethod
    def declared(cls) -> list[Declared]:
        """Return this room's settings, in the order of their declaration."""
        return [_declared(cls.room, each) for each in fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def load(cls, *, file: str | Path | None = None, environ: Mapping[str, str] | None = None, **given: Any) -> Self:
        """Return the settings in force: default < file < environment < `given` (None: not given).

        `file` None reads `penstock.toml` in the working directory if there is one.
        Raises UnknownSetting, WrongSettingType, SettingOutOfRange, SettingsFileUnreadable.
        """
        known = {one.name: one for one in cls.declared()}
        values: dict[str, Any] = {}
        sources = cls._sources(file, os.environ if environ is None else environ, known)
        for source, name, raw in [*sources, *(("code", name, value) for name, value in given.items())]:
            if name not in known:
                raise UnknownSetting(f"{cls.room}.{name}", source, [one.path for one in known.values()])
            if raw is not None:
                values[name] = _convert(known[name], raw, source)
        return cls(**values)

    @classmethod
    def _sources(
        cls, file: str | Path | None, environ: Mapping[str, str], known: Mapping[str, Declared]
    ) -> Iterator[tuple[str, str, Any]]:
        path, tables = read_file(file)
        for name, raw in tables.get(cls.room, {}).items():
            yield f"{path} [{cls.room}]", name, raw
        for one in known.values():
            if one.env in environ:
                yield f"environment {one.env}", one.name, environ[one.env]


def declared() -> list[Declared]:
    """Return all settings of the rooms imported so far, sorted by room."""
    return [one for room in sorted(Settings._rooms) for one in Settings._rooms[room].declared()]


def check_names(file: str | Path | None = None, environ: Mapping[str, str] | None = None) -> None:
    """Refuse names in the file or the environment that no room declares, such as a table [limts].

    `load` checks one room only, so a program calls this once. Names of rooms that it has not imported are
    valid too: one file serves an application and its gateway. Raises UnknownSetting, SettingsFileUnreadable.
    """
    path, tables = read_file(file)
    known = _all_paths()
    rooms = sorted({each.partition(".")[0] for each in known})
    for room, table in tables.items():
        if room not in rooms:
            raise UnknownSetting(f"[{room}]", str(path), [f"[{each}]" for each in rooms])
        of_room = [each for each in known if each.startswith(f"{room}.")]
        for name in table:
            if f"{room}.{name}" not in of_room:
                raise UnknownSetting(f"{room}.{name}", str(path), of_room)
    for name, alike in misspelt(environ).items():
        raise UnknownSetting(name, "environment", alike)


def misspelt(environ: Mapping[str, str] | None = None) -> dict[str, list[str]]:
    """Return the environment variables that look like misspelt settings, each with similar names.

    Other programs may own names that begin with PENSTOCK_: a name counts as ours if it is close to a setting
    or has the prefix of a room. Variables that Kubernetes sets for a service called penstock or
    penstock-gateway do not count.
    """
    names = [_variable(each) for each in _all_paths()]
    rooms = {_variable(each.partition(".")[0] + ".") for each in _all_paths()}
    found: dict[str, list[str]] = {}
    for name in os.environ if environ is None else environ:
        if name.startswith("PENSTOCK_") and name not in names and not _OF_SERVICE.search(name):
            alike = get_close_matches(name, names, cutoff=0.85)
            room = next((each for each in rooms if name.startswith(each)), None)
            if alike or room:
                found[name] = alike or [each for each in names if each.startswith(room or "")]
    return found


def _all_paths() -> list[str]:
    """Return the dotted names of all settings, of imported rooms and of all others."""
    here = [one.path for one in declared()]
    return here + [each for each in _written_down() if each not in here]


@cache
def _written_down() -> tuple[str, ...]:
    return tuple(NAMES.read_text("utf-8").split())


def _variable(path: str) -> str:
    return f"PENSTOCK_{path.replace('.', '_')}".upper()


def read_file(file: str | Path | None = None) -> tuple[Path, dict[str, dict[str, Any]]]:
    """Return the settings file's path and tables; a missing default file has none.

    Raises SettingsFileUnreadable, UnknownSetting.
    """
    path = Path(FILE if file is None else file)
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if file is None:
            return path, {}
        raise SettingsFileUnreadable(str(path), "there is no such file") from None
    except (OSError, ValueError, RecursionError) as exc:  # not TOML, not UTF-8, an impossible path
        raise SettingsFileUnreadable(str(path), str(exc)) from exc
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UnknownSetting(name, str(path), ["only tables such as [limits] at the top"])
    return path, tables


def _declared(room: str, each: "Field[Any]") -> Declared:
    assert _RULE in each.metadata, f"{room}.{each.name} is not declared with setting()"
    assert each.default is not MISSING
    kind = each.type if isinstance(each.type, str) else getattr(each.type, "__name__", str(each.type))
    kind = kind.partition("[")[0].partition(".")[0]  # bool, int, float, str, timedelta or tuple (of strings)
    return Declared(room, each.name, kind, each.default, each.metadata[_RULE])


def _check(one: Declared, value: Any, source: str) -> None:
    wanted, fits = _KINDS[one.kind]
    if not fits(value):
        raise WrongSettingType(one.path, value, wanted, source)
    if not one.rule.admits(value):
        raise SettingOutOfRange(one.path, value, one.rule.wanted(), source)


def _convert(one: Declared, raw: Any, source: str) -> Any:
    """Return a value of the file, the environment, code or a flag as the setting's type, checked."""
    value = raw
    try:
        if one.kind == "bool" and isinstance(raw, str):
            value = _WORDS[raw.strip().lower()]
        elif one.kind == "int" and isinstance(raw, str):
            value = int(raw)
        elif one.kind in ("float", "timedelta") and not isinstance(raw, bool | timedelta):
            seconds = float(raw)
            value = timedelta(seconds=seconds) if one.kind == "timedelta" else seconds
        elif one.kind == "tuple" and isinstance(raw, str | list):
            value = tuple(raw.replace(",", " ").split() if isinstance(raw, str) else raw)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise WrongSettingType(one.path, raw, _KINDS[one.kind][0], source) from None
    _check(one, value, source)
    return value


_KINDS: dict[str, tuple[str, Any]] = {
    "bool": ("true or false", lambda v: isinstance(v, bool)),
    "int": ("a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "float": ("a number", lambda v: isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < _INFINITE),
    "str": ("a string", lambda v: isinstance(v, str)),
    "timedelta": ("a timedelta, or a number of seconds", lambda v: isinstance(v, timedelta)),
    "tuple": ("a list of strings", lambda v: isinstance(v, tuple) and all(isinstance(x, str) for x in v)),
}
