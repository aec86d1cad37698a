"""Durations, sizes and moments as people write them on a command line, and as they are shown to them."""

import re
from datetime import UTC, datetime, timedelta

import click

from penstock.clock import SYSTEM, from_ms

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|w)?")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)
_UNLIMITED = ("unlimited", "forever")


def is_unlimited(text: str) -> bool:
    """Return whether a text says that there is no limit."""
    return text.strip().lower() in _UNLIMITED


def duration(text: str) -> timedelta:
    """Return the duration that a text such as 30d or 90min names; a number without a unit is 0 only."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or (found[2] is None and float(found[1])):
        raise click.BadParameter(f"{text!r} is not a duration such as 30d, 12h, 90min or 45s")
    try:
        return timedelta(seconds=float(found[1]) * _SECONDS[found[2] or "s"])
    except OverflowError:
        raise click.BadParameter(f"{text!r} is longer than any duration") from None


def size(text: str) -> int:
    """Return the bytes that a text such as 10GB names; kilo and the like are 1000, with an i 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size such as 10GB, 512MiB or 1000")
    power = " KMGT".index((found[2] or " ").upper())
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def count(text: str) -> int:
    """Return the whole number that a text names."""
    if not re.fullmatch(r"-?\d{1,30}", text.strip()):
        raise click.BadParameter(f"{text!r} is not a whole number")
    return int(text)


def moment_of(text: str) -> datetime | None:
    """Return the moment that ISO 8601 text names, in UTC if it says no zone; None if it names none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def moment(text: str) -> datetime:
    """Return the moment that a text names."""
    found = moment_of(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a moment such as 2026-11-16T02:00 (UTC) or 2026-11-16")
    return found


def past_moment(text: str) -> datetime:
    """Return the moment that a text names, or that lies a duration such as 2h back."""
    found = moment_of(text)
    if found is not None:
        return found
    try:
        return from_ms(SYSTEM.now_ms()) - duration(text)
    except (click.BadParameter, OverflowError):
        raise click.BadParameter(
            f"{text!r} is neither a duration back from now such as 2h or 30d, nor a moment such as "
            "2026-11-16T02:00 (UTC) or 2026-11-16"
        ) from None


def duration_text(milliseconds: int) -> str:
    """Return a duration in the largest unit that fits it without a rest."""
    for unit in ("d", "h", "min", "s"):
        per = int(_SECONDS[unit] * 1000)
        if milliseconds % per == 0:
            return f"{milliseconds // per}{unit}"
    return f"{milliseconds}ms"


def size_text(count: int) -> str:
    """Return a count of bytes, rounded to what a person reads."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
