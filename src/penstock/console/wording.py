"""Formats values for a page: numbers, ages, moments, foreign text. Returns text, never markup."""

import unicodedata
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import msgspec

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}  # invisible characters, and those that change the direction of text
_STEPS = ((1e9, "G"), (1e6, "M"), (1e4, "k"))


def plain(value: Any, longest: int = 200) -> str:
    """Return foreign text for one place of a page: hidden characters are escaped, long text is cut."""
    text = "" if value is None else str(value.value if isinstance(value, Enum) else value)
    cut = text[:longest]
    if not cut.isprintable():
        cut = "".join(_seen(each) for each in cut)
    return f"{cut}…" if len(text) > longest else cut


def lines(text: str) -> str:
    """Return foreign text of several lines: like `plain`, but line ends and tabs stay, and nothing is cut."""
    if text.isprintable():
        return text
    return "".join(each if each in "\n\t" else _seen(each) for each in text)


def _seen(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def number(value: float | None, most: int | None = None) -> str:
    """Return a count with thousands separators; `most` followed by `+` if counting stopped there."""
    if value is None:
        return "–"
    if most is not None and value >= most:
        return f"{most:,}+"
    return f"{value:,.0f}"


def short(value: float | None) -> str:
    """Return a count in a few characters: 12,345 is 12.3k."""
    if value is None:
        return "–"
    for step, sign in _STEPS:
        if value >= step:
            unit = 1e3 if sign == "k" else step
            return f"{value / unit:.1f}{sign}"
    return f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Return a rate per second: small ones with a decimal, so that a trickle does not show as 0."""
    if value is None:
        return "–"
    return f"{value:.1f}" if 0 < value < 10 else short(value)


def lasting(seconds: float | None) -> str:
    """Return a duration: 42 s, 3 min, 2 h 5 min, 3 d."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d"


def age(moment: datetime | None, now: datetime) -> str:
    """Return the time since a moment."""
    return "–" if moment is None else lasting((now - moment).total_seconds())


def until(moment: datetime | None, now: datetime) -> str:
    """Return the time until a moment: in 3 min, or 3 min ago."""
    if moment is None:
        return "–"
    seconds = (moment - now).total_seconds()
    return f"in {lasting(seconds)}" if seconds >= 0 else f"{lasting(-seconds)} ago"


def moment(at: datetime | None) -> str:
    """Return a moment, in UTC."""
    return "–" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def precise(at: datetime | None) -> str:
    """Return a moment to the millisecond, in UTC."""
    return "–" if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def exact(at: datetime | None) -> str:
    """Return a moment to the millisecond, in the format of `<time>`."""
    return "" if at is None else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def span(ms: int | None) -> str:
    """Return a retention time."""
    if ms is None:
        return "as set"
    return "forever" if ms < 0 else lasting(timedelta(milliseconds=ms).total_seconds())


def size(count: int) -> str:
    """Return a number of bytes."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}"
        count //= 1024
    return f"{count:,.0f} GiB"


def indented(data: bytes) -> str:
    """Return JSON over several lines."""
    return msgspec.json.format(data, indent=2).decode("utf-8", "replace")


def hexed(data: bytes, most: int) -> str:
    """Return the first bytes in hex, sixteen per line, with their text beside them."""
    rows = []
    for at in range(0, min(len(data), most), 16):
        part = data[at : at + 16]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        rows.append(f"{at:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {text}")
    return "\n".join(rows)


FILTERS = {
    each.__name__: each
    for each in (plain, lines, number, short, rate, lasting, age, until, moment, precise, exact, span, size)
}
