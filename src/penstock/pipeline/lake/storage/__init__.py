"""From an address to the location of a lake; a process imports only the storage it needs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

from penstock.errors import InvalidOption

from .contract import Location, Storage
from .local import LOCAL

__all__ = ["Location", "Storage", "asking", "asks_storage", "located", "location", "storage_of"]

_BUCKETS = "s3://"
_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")
_At = TypeVar("_At", bound=Location)


def located(option: str, given: str) -> Location:
    """Return the location of a path or an address, `file://` or `s3://`. Raises InvalidOption for others."""
    parts = urlsplit(given)
    if given.startswith(_BUCKETS):
        if not parts.netloc or set("@:") & set(parts.netloc) or ".." in parts.path.split("/"):
            raise InvalidOption(option, f"{_BUCKETS}…", f"{_BUCKETS}BUCKET/FOLDER, and nothing else")
        return location(given)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    if not given or "://" in given:
        wanted = f"a path that the driver and all executors see, or {_BUCKETS}BUCKET/FOLDER"
        shown = f"{parts.scheme}://…" if "@" in given else given  # it may contain a key, and the key a slash
        raise InvalidOption(option, shown, wanted)
    return Path(given).absolute()


def location(address: str) -> Location:
    """Return the location that a text names."""
    if not address.startswith(_BUCKETS):
        return Path(address)
    from .bucket import BucketPath

    return BucketPath.parse(address)


def storage_of(path: Location) -> Storage[Any]:
    """Return the storage of a location."""
    if isinstance(path, Path):
        return LOCAL
    from .bucket import BUCKETS

    return BUCKETS


def asking(path: Location) -> AbstractContextManager[None]:
    """Translate errors about an unreachable storage into our own."""
    return storage_of(path).asking(path)


def asks_storage(function: Callable[Concatenate[_At, _Given], _Found]) -> Callable[Concatenate[_At, _Given], _Found]:
    """Wrap a function of a location, so that it raises our own errors when the storage is unreachable."""

    @wraps(function)
    def call(path: _At, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Found:
        with asking(path):
            return function(path, *args, **kwargs)

    return call
