"""Look for known weaknesses: `python -m tools.audit`. bandit reads our code.

pip-audit asks a service about each pin of constraints.txt. Where that is out of reach, a line says so, and
the check passes.
"""

import json
import subprocess
import sys

_SECONDS = 120
_BANDIT = ["bandit", "--quiet", "--configfile", "pyproject.toml", "--recursive", "src"]
_PIP_AUDIT = ["pip_audit", "--requirement", "constraints.txt", "--no-deps", "--disable-pip"]
_PIP_AUDIT += ["--format", "json", "--progress-spinner", "off"]


def weaknesses(report: str) -> tuple[list[str], str]:
    """Return what is known to be weak, and a note if not all could be asked about."""
    try:
        pins = json.loads(report)["dependencies"]
    except (ValueError, KeyError):
        pins = []
    asked = [each for each in pins if "skip_reason" not in each]
    found = [
        f"{pin['name']} {pin['version']}: {weak['id']}, mended in {', '.join(weak['fix_versions']) or 'no version'}"
        for pin in asked
        for weak in pin["vulns"]
    ]
    if not asked:
        return found, "note: pip-audit could not reach its data, so no pin was audited"
    left = len(pins) - len(asked)
    return found, f"note: pip-audit knows nothing of {left} of {len(pins)} pins" if left else ""


def _report() -> str:
    try:
        done = subprocess.run(
            [sys.executable, "-m", *_PIP_AUDIT], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def main() -> int:
    """Print what was found; return the exit code."""
    bandit = subprocess.run([sys.executable, "-m", *_BANDIT], capture_output=True, text=True, check=False)
    found, note = weaknesses(_report())
    for each in (bandit.stdout + bandit.stderr if bandit.returncode else "", *found, note):
        if each:
            print(each)
    return 1 if bandit.returncode or found else 0


if __name__ == "__main__":
    sys.exit(main())
