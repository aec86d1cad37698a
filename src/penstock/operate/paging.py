"""Listings in pages: a limit, and an opaque place where the next page begins."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from penstock.database.contract import Row
from penstock.errors import InvalidPage

PAGE_ROWS = 16  # of a page, by default
LONGEST = 1000
LAST = (1 << 63) - 1  # the largest integer of a column

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a listing. `after`: where the next page begins; None after the last page."""

    items: list[T]
    after: str | None


def check_limit(limit: int) -> int:
    """Return the limit if it is valid. Raises InvalidPage."""
    if not 1 <= limit <= LONGEST:
        raise InvalidPage("the limit", limit, f"1 to {LONGEST}")
    return limit


def page(rows: Sequence[Row], limit: int, place: int, item: Callable[[Row], T]) -> Page[T]:
    """Return a page of rows, which begin with their place; a row beyond `limit` tells that there are more."""
    more = len(rows) > limit
    after = None
    if more:
        after = urlsafe_b64encode(msgspec.json.encode(rows[limit - 1][:place])).decode().rstrip("=")
    return Page([item(row) for row in rows[:limit]], after)


def place_after(after: str | None, *first: Any, least: int = 0) -> Row:
    """Return the place that a page's `after` names, or the first, which has its types. Raises InvalidPage."""
    if after is None:
        return first
    kinds = tuple(map(type, first))
    try:
        padded = after.encode("ascii") + b"=" * (-len(after) % 4)
        place = msgspec.json.decode(urlsafe_b64decode(padded), type=tuple[kinds])  # type: ignore[valid-type]
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise _refused(after) from None
    if any(isinstance(each, int) and not least <= each <= LAST for each in place):
        raise _refused(after)
    return tuple(place)


def places_after(after: str | None, first: dict[str, Any], *, least: int = 0) -> dict[str, Any]:
    """Return the same by the names of parameters. Raises InvalidPage."""
    return dict(zip(first, place_after(after, *first.values(), least=least), strict=True))


def _refused(after: str) -> InvalidPage:
    return InvalidPage("the place to go on from", after, "the `after` of a page of the same listing")
