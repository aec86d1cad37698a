"""Curves as SVG: this module computes the points, a template draws them. No script, no library."""

from dataclasses import dataclass

from .history import SPAN_SECONDS, Curve

WIDTH, HEIGHT = 160.0, 36.0
_EDGE = 2.0


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A small curve: a line, the area below it, its end point, and its marks as (x, text)."""

    line: str
    area: str
    end: tuple[float, float] | None
    marks: tuple[tuple[float, str], ...]
    top: float


def sparkline(curve: Curve) -> Sparkline:
    """Return the last two minutes of a curve; the newest point is at the right edge."""
    if not curve.points:
        return Sparkline("", "", None, (), 0.0)
    newest = curve.points[-1][0]
    shown = [each for each in curve.points if newest - each[0] <= SPAN_SECONDS]
    top = max((value for _, value in shown), default=0.0)
    scale = (HEIGHT - 2 * _EDGE) / top if top else 0.0
    places = [(_x(at, newest), round(HEIGHT - _EDGE - value * scale, 1)) for at, value in shown]
    line = " ".join(f"{x},{y}" for x, y in places)
    area = f"{places[0][0]},{HEIGHT} {line} {places[-1][0]},{HEIGHT}"
    marks = tuple((_x(at, newest), text) for at, text in curve.marks if newest - at <= SPAN_SECONDS)
    return Sparkline(line, area, places[-1], marks, top)


def _x(at: float, newest: float) -> float:
    return round(WIDTH - _EDGE - (newest - at) / SPAN_SECONDS * (WIDTH - 2 * _EDGE), 1)
