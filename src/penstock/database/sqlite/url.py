"""The address of a SQLite file, and its options from drivers."""

from urllib.parse import parse_qsl, urlencode

from penstock.errors import InvalidUrl

from ..address import FORMS, Options

# Options of the application's own driver, which do not apply to our connections.
_OF_THE_DRIVER = {
    "autocommit",
    "cached_statements",
    "check_same_thread",
    "detect_types",
    "isolation_level",
    "iter_chunk_size",
}
_TIMEOUT = "timeout"
_REMEDIES = {
    "mode": "Penstock writes its own tables and creates the file with `migrate`; leave it out",
    "uri": "name the file itself, as in sqlite:///file.db",
}


def sqlite_url(shown: str, path: str, options: Options) -> str:
    """Return the plain URL of a file with the options that apply here. Raises InvalidUrl."""
    if not path or path == ":memory:" or "?" in path:
        raise InvalidUrl(shown, FORMS)
    kept = []
    for name, value in options:
        if name == _TIMEOUT:
            kept.append((name, f"{_seconds(shown, value):g}"))
        elif name not in _OF_THE_DRIVER:
            remedy = _REMEDIES.get(name, "leave it out")
            raise InvalidUrl(shown, FORMS, why=f"the option {name!r} has no meaning for a store; {remedy}")
    return f"sqlite:///{path}" + (f"?{urlencode(kept)}" if kept else "")


def path_and_timeout(rest: str) -> tuple[str, float | None]:
    """Split the part after `sqlite:///` of a plain URL into the path and the time-out for locks."""
    path, _, query = rest.partition("?")
    given = dict(parse_qsl(query)).get(_TIMEOUT)
    return path, None if given is None else float(given)


def _seconds(shown: str, value: str) -> float:
    try:
        seconds = float(value)
        if 0 <= seconds <= 1e6:
            return seconds
    except ValueError:
        pass
    raise InvalidUrl(shown, FORMS, why=f"timeout={value!r} must be a number of seconds, as in timeout=30")
