"""Where the benchmarks keep their things: all below `.bench/`, which git ignores."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".bench"
