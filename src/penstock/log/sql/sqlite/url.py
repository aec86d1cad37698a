"""The address of a SQLite file, and the options that drivers let it have."""

from urllib.parse import parse_qsl, urlencode

from penstock.errors import InvalidUrl

from ..address import FORMS, Options

# They say how the application's own driver works, and mean nothing to connections of ours.
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
    "mode": "Penstock writes its own tables and makes the file by `migrate`; leave it out",
    "uri": "name the file itself, as in sqlite:///file.db",
}


def sqlite_url(shown: str, path: str, options: Options) -> str:
    """Return the plain URL of a file with those of its options that count here. Raises InvalidUrl."""
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
    """Return the path in what follows `sqlite:///` of a plain URL, and how long to wait for a lock."""
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
