"""Formats times, counts and errors for the sentences."""

from penstock.clock import from_ms

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_UNITS = ((2 * _MINUTE, _SECOND, "s"), (2 * _HOUR, _MINUTE, "min"), (2 * _DAY, _HOUR, "h"))
_REASON_CHARACTERS = 200


def ahead(ms: int, now_ms: int) -> str:
    """Return a future moment: the time until it, and its clock time."""
    return f"in {_span(max(0, ms - now_ms), up=True)} ({_at(ms, now_ms)})"


def ago(ms: int, now_ms: int) -> str:
    """Return a past moment: how long ago, and its clock time."""
    span = now_ms - ms
    return f"{'just now' if span < _SECOND else f'{_span(span)} ago'} ({_at(ms, now_ms)})"


def lasting(ms: int) -> str:
    """Return a duration."""
    return _span(max(0, ms))


def times(count: int) -> str:
    """Return a number of times in words."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number of things."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def short(reason: str) -> str:
    """Return a reason on one line, cut if it is long."""
    line = " ".join(reason.split())
    return line if len(line) <= _REASON_CHARACTERS else line[: _REASON_CHARACTERS - 1] + "…"


def _span(ms: int, *, up: bool = False) -> str:
    """Return a duration in its largest fitting unit; `up`: rounded up, otherwise down."""
    for below, unit, name in _UNITS:
        if ms < below:
            return f"{-(-ms // unit) if up else ms // unit} {name}"
    return f"{-(-ms // _DAY) if up else ms // _DAY} days"


def _at(ms: int, now_ms: int) -> str:
    moment, today = from_ms(ms), from_ms(now_ms).date()
    return f"{moment:%H:%M:%S} UTC" if moment.date() == today else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
