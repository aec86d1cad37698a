"""Parses and formats durations, sizes and moments for people."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import click

from penstock.clock import SYSTEM, from_ms

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|w)?")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)
_UNLIMITED = ("unlimited", "forever")


def is_unlimited(text: str) -> bool:
    """Return whether a text means no limit."""
    return text.strip().lower() in _UNLIMITED


def duration(text: str) -> timedelta:
    """Return the duration of a text such as 30d or 90min; only 0 needs no unit."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or (found[2] is None and float(found[1])):
        raise click.BadParameter(f"{text!r} is not a duration such as 30d, 12h, 90min or 45s")
    try:
        return timedelta(seconds=float(found[1]) * _SECONDS[found[2] or "s"])
    except OverflowError:
        raise click.BadParameter(f"{text!r} is longer than any duration") from None


def size(text: str) -> int:
    """Return the bytes of a text such as 10GB; k, M, G and T are powers of 1000, with an i of 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size such as 10GB, 512MiB or 1000")
    power = " KMGT".index((found[2] or " ").upper())
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def count(text: str) -> int:
    """Return the whole number of a text."""
    if not re.fullmatch(r"-?\d{1,30}", text.strip()):
        raise click.BadParameter(f"{text!r} is not a whole number")
    return int(text)


def moment(text: str) -> datetime:
    """Return the moment of an ISO 8601 text, in UTC without a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a moment such as 2026-11-16T02:00 (UTC) or 2026-11-16") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def past_moment(text: str) -> datetime:
    """Return the moment of a text, or of a duration back from now such as 2h."""
    with suppress(click.BadParameter):
        return moment(text)
    try:
        return from_ms(SYSTEM.now_ms()) - duration(text)
    except (click.BadParameter, OverflowError):
        raise click.BadParameter(
            f"{text!r} is neither a duration back from now such as 2h or 30d, nor a moment such as "
            "2026-11-16T02:00 (UTC) or 2026-11-16"
        ) from None


def topic_place(text: str, option: str | None = None, also: str = "") -> str | int | datetime:
    """Return the place in a topic that a text names; `also`: what else the option takes, for the message."""
    if text in ("earliest", "latest"):
        return text
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        return past_moment(text)
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is not earliest, latest, an offset, a duration back such as 2h, or a moment such as "
            f"2026-11-16T02:00{also}",
            param_hint=option,
        ) from None


def name_value(text: str) -> tuple[str, str]:
    """Return the two parts of NAME=VALUE."""
    name, found, value = text.partition("=")
    if not (found and name):
        raise click.BadParameter(f"{text!r} must be NAME=VALUE, such as source=import")
    return name, value


def size_text(count: int) -> str:
    """Return a number of bytes, rounded for people."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
