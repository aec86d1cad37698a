"""The address of a log in files: a directory, as a path or as `file:///directory`."""

import os
from urllib.parse import unquote

SCHEME = "file"
_SIGNS = ("./", "../", "/", "~/")


def directory_in(url: str) -> str | None:
    """Return the absolute directory of an address; None for an address of another kind."""
    scheme, found, rest = url.partition("://")
    if found:
        if scheme != SCHEME or not rest.startswith("/") or "\x00" in rest:
            return None
        return os.path.abspath(unquote(rest))
    if "\x00" in url or os.path.isfile(url):
        return None
    is_meant = url in (".", "..") or url.startswith(_SIGNS) or url.endswith("/") or os.path.isdir(url)
    has_suffix = os.path.splitext(url.rstrip("/"))[1] and not url.endswith("/") and not os.path.isdir(url)
    return os.path.abspath(os.path.expanduser(url)) if url and is_meant and not has_suffix else None
