"""Where the benchmarks keep their things: all below `.bench/`, which git ignores, but for its pages."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".bench"
PAGES = "docs/benchmarks"  # what the command writes itself, below ROOT
