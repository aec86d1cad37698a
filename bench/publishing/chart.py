"""A line chart as SVG: named places from left to right, a logarithmic scale upwards.

Written by hand because it is one kind of chart: no dependency, and the same numbers give the same bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.sax.saxutils import escape

from bench.words import number

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 76, 48
_COLOURS = ("#1b66c9", "#d9731a", "#3f8f4f", "#8a4fb0")
_FONT = 'font-family="system-ui, sans-serif"'


@dataclass(frozen=True)
class Point:
    """A median with the spread of its rounds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line: whose it is (which gives its colour), a point or nothing for each place."""

    name: str
    points: Sequence[Point | None]
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What is drawn. Points that are not above zero are left out: the scale has no place for them."""

    title: str
    about: str
    places: Sequence[str]
    lines: Sequence[Line]


def svg(chart: Chart) -> str:
    """Return the chart as the text of a file."""
    low, high = _decades(chart)
    names = list(dict.fromkeys(line.name for line in chart.lines))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {_FONT}>',
        f"<title>{escape(chart.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 24, chart.title, size=16, weight="600"),
        _text(_LEFT, 42, chart.about, size=12, colour="#555555"),
        *_legend(names),
        *_grid(chart, low, high),
    ]
    for line in chart.lines:
        parts.extend(_drawn(line, _COLOURS[names.index(line.name) % len(_COLOURS)], chart, low, high))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _decades(chart: Chart) -> tuple[int, int]:
    """Return the powers of ten that hold every point."""
    values = [value for line in chart.lines for point in line.points if point for value in _positive(point)]
    if not values:
        return 0, 1
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def _positive(point: Point) -> list[float]:
    return [value for value in (point.low, point.value, point.high) if value > 0]


def _legend(names: Sequence[str]) -> Iterator[str]:
    x = float(_LEFT)
    for at, name in enumerate(names):
        yield f'<rect x="{x:g}" y="53" width="12" height="12" rx="2" fill="{_COLOURS[at % len(_COLOURS)]}"/>'
        yield _text(x + 18, 63, name, size=13)
        x += 34 + 7.5 * len(name)


def _grid(chart: Chart, low: int, high: int) -> Iterator[str]:
    for power in range(low, high + 1):
        y = _y(10.0**power, low, high)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#d8d8d8"/>'
        yield _text(_LEFT - 8, y + 4, _plain(10.0**power), size=12, anchor="end", colour="#555555")
    for at, place in enumerate(chart.places):
        yield _text(_x(at, chart), HEIGHT - _BOTTOM + 22, place, size=12, anchor="middle", colour="#555555")


def _drawn(line: Line, colour: str, chart: Chart, low: int, high: int) -> Iterator[str]:
    there = [(_x(at, chart), point) for at, point in enumerate(line.points) if point and point.value > 0]
    path = " ".join(f"{x:.1f},{_y(point.value, low, high):.1f}" for x, point in there)
    style = ' stroke-dasharray="5 4" stroke-opacity="0.75"' if line.dashed else ""
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{style}/>'
    for x, point in there:
        top, bottom = (_y(value, low, high) for value in (max(_positive(point)), min(_positive(point))))
        yield (
            f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="{colour}" stroke-opacity="0.5"/>'
        )
        y, fill = _y(point.value, low, high), "#ffffff" if line.dashed else colour
        tip = escape(f"{line.name}: {number(point.value)} ({number(point.low)}..{number(point.high)})")
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{fill}" stroke="{colour}"><title>{tip}</title></circle>'
        )


def _x(at: int, chart: Chart) -> float:
    room = WIDTH - _LEFT - _RIGHT
    return _LEFT + room * (at + 0.5) / len(chart.places)


def _y(value: float, low: int, high: int) -> float:
    room = HEIGHT - _TOP - _BOTTOM
    return HEIGHT - _BOTTOM - room * (log10(value) - low) / (high - low)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _text(
    x: float, y: float, text: str, *, size: int, anchor: str = "start", weight: str = "400", colour: str = "#222222"
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )
