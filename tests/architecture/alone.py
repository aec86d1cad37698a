"""Running Python with only the core installed, as far as imports can tell."""

import re
import subprocess
import sys
from importlib import metadata

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


def run_alone(code: str) -> "subprocess.CompletedProcess[str]":
    """Run code in a new process in which no package but the core's own can be imported."""
    guard = f"BLOCKED = {sorted(_other_modules())!r}\n{_GUARD}\nsys.path.insert(0, {str(ROOT.parent)!r})\n"
    return subprocess.run([sys.executable, "-c", guard + code], capture_output=True, text=True, check=False)


def _other_modules() -> set[str]:
    """Return the top modules of every installed distribution that the core does not ask for."""
    core = _closure("penstock")
    return {
        module
        for module, owners in metadata.packages_distributions().items()
        if not core & {_plain(owner) for owner in owners}
    }


def _closure(name: str) -> set[str]:
    """Return a distribution and all that it needs without any extra."""
    found, waiting = set[str](), [name]
    while waiting:
        current = _plain(waiting.pop())
        if current in found:
            continue
        found.add(current)
        try:
            needed = metadata.requires(current) or []
        except metadata.PackageNotFoundError:
            continue
        waiting += [re.split(r"[^\w.-]", each)[0] for each in needed if "extra ==" not in each]
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
