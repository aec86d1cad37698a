"""Penstock's benchmarks: what a case file imports.

Run with `python -m bench`; `docs/how-to/benchmark.md` says how to read the lines and add a case. Not part of
the shipped package.
"""

from bench.case import Case, Extra, Variant
from bench.errors import NotMeasured
from bench.memory import Resident
from bench.peers import Peer
from bench.run import Run, Size
from bench.target import Difference, Paired, Ratio, Target, Value

__all__ = [
    "Case",
    "Difference",
    "Extra",
    "NotMeasured",
    "Paired",
    "Peer",
    "Ratio",
    "Resident",
    "Run",
    "Size",
    "Target",
    "Value",
    "Variant",
]
