# Shared by every script in this folder (and by .ci/run); sourced, never run.
#
# Owns: where the project is, how progress and refusals are said, how a step is timed.
# Leaves behind: the working directory is the project root, whatever it was before.
# Keeps to bash 3.2 so that a Mac's own bash can read it.

set -euo pipefail
unset CDPATH                 # with it, `cd` prints and may go elsewhere
unset PYTHONPATH PYTHONHOME  # .venv is the only place our Python may import from

ROOT="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
VENV="$ROOT/.venv"
cd -- "$ROOT"

# One clear sentence, then the end.
refuse() {
  printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2
  exit 1
}

# The comment block at the top of the running script is its help text.
help_from_header() {
  sed -n '2,/^$/{ s/^# \{0,1\}//; p; }' "$0"
}

# Hidden progress would leave a newcomer in front of a silent terminal for minutes, so every script
# that needs .venv goes through here.
ensure_venv() {
  "$ROOT/scripts/setup"
}
