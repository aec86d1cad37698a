"""Running Python with only the core installed, as far as imports can tell."""

import re
import subprocess
import sys
from collections.abc import Collection
from functools import cache
from importlib import metadata

from packaging.requirements import Requirement

from penstock.errors.settings import DISTRIBUTION
from tests.architecture.source import ROOT

# A missing package is one that no finder finds, so `find_spec` answers None as it would then.
_GUARD = """
import sys
from importlib.machinery import PathFinder

class Guard(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in BLOCKED else super().find_spec(name, path, target)

sys.meta_path[:] = [Guard if finder is PathFinder else finder for finder in sys.meta_path]
"""


def run_alone(code: str, extras: Collection[str] = ()) -> "subprocess.CompletedProcess[str]":
    """Run code in a new process that can import only what the core, and the extras named, bring along."""
    return subprocess.run([sys.executable, "-c", alone(code, extras)], capture_output=True, text=True, check=False)


def alone(code: str, extras: Collection[str] = ()) -> str:
    """Return a program that runs code where only what the core and some extras bring along can be imported."""
    blocked = sorted(_other_modules(frozenset(extras)))
    return f"BLOCKED = {blocked!r}\n{_GUARD}\nsys.path.insert(0, {str(ROOT.parent)!r})\n{code}"


@cache
def _other_modules(extras: frozenset[str]) -> set[str]:
    """Return the top modules of every installed distribution that is not asked for."""
    asked = _closure(extras)
    return {
        module
        for module, owners in metadata.packages_distributions().items()
        if not asked & {_plain(owner) for owner in owners}
    }


def _closure(extras: Collection[str]) -> set[str]:
    """Return our distribution and all that it needs, with some extras."""
    found, waiting = set[tuple[str, str]](), [(DISTRIBUTION, ""), *((DISTRIBUTION, each) for each in extras)]
    while waiting:
        if (current := waiting.pop()) in found:
            continue
        found.add(current)
        name, extra = current
        try:
            needed = [Requirement(each) for each in metadata.requires(name) or []]
        except metadata.PackageNotFoundError:
            continue
        for each in needed:
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                waiting += [(_plain(each.name), extra) for extra in ("", *each.extras)]
    return {name for name, _ in found}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
