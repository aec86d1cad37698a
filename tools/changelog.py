"""Fold the notes in changes/ into CHANGELOG.md for a release: `python -m tools.changelog 0.1.0`.

A note is `changes/NNNN-title.md`: its first line is `# added` (or another kind of `KINDS`), then what a user
sees. The notes of one kind stand together, in the order of their numbers, and are removed once they are
folded. Everything is checked before anything is written.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")  # the order in a release
MARK = "<!-- releases, newest first -->"
_FILE = re.compile(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md")


class Refused(Exception):
    """The release cannot be folded; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Note:
    """One change as a user sees it."""

    path: Path
    kind: str
    text: str


def read_notes(folder: Path) -> list[Note]:
    """Return the notes of a folder by number. Raises Refused for one that is not in form."""
    found: dict[str, Note] = {}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        named = _FILE.fullmatch(path.name)
        if named is None:
            raise Refused(f"{path.name} must be called NNNN-its-title.md")
        if named[1] in found:
            raise Refused(f"{path.name} has the number of {found[named[1]].path.name}")
        found[named[1]] = _note(path)
    return list(found.values())


def fold(changelog: str, version: str, notes: Sequence[Note]) -> str:
    """Return the changelog with a release in front of the others. Raises Refused."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise Refused(f"{version} is no version; write it as 1.2.3")
    if re.search(rf"^## {re.escape(version)}$", changelog, re.MULTILINE):
        raise Refused(f"CHANGELOG.md has {version} already")
    if not notes:
        raise Refused("changes/ has no notes: there is nothing to release")
    if MARK not in changelog:
        raise Refused(f"CHANGELOG.md has lost its line {MARK}")
    parts = [f"## {version}"]
    for kind in KINDS:
        told = [note.text for note in notes if note.kind == kind]
        parts += [f"### {kind.capitalize()}", *told] if told else []
    return changelog.replace(MARK, "\n\n".join([MARK, *parts]), 1)


def release(project: Path, version: str) -> int:
    """Fold a project's notes into its changelog and remove them; return how many. Raises Refused."""
    stated = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if stated != version:
        raise Refused(f"pyproject.toml says version {stated}; set it to {version} first")
    path, notes = project / "CHANGELOG.md", read_notes(project / "changes")
    path.write_text(fold(path.read_text("utf-8"), version, notes), "utf-8")
    for note in notes:
        note.path.unlink()
    return len(notes)


def main(args: Sequence[str], project: Path = Path(__file__).parents[1]) -> int:
    """Run the tool; return the exit code."""
    if len(args) != 1 or args[0].startswith("-"):
        print("usage: python -m tools.changelog VERSION")
        return 2
    try:
        count = release(project, args[0])
    except Refused as refusal:
        print(f"refused: {refusal}")
        return 1
    print(f"CHANGELOG.md has {args[0]} now, with {count} notes")
    return 0


def _note(path: Path) -> Note:
    first, _, text = path.read_text("utf-8").partition("\n")
    kind = first.removeprefix("# ")
    if not first.startswith("# ") or kind not in KINDS:
        raise Refused(f"{path.name} must begin with '# ' and one of {', '.join(KINDS)}, not {first!r}")
    if not text.strip():
        raise Refused(f"{path.name} says nothing")
    if re.search(r"^#{1,3} ", text, re.MULTILINE):
        raise Refused(f"{path.name} has a second heading; write one note per kind")
    return Note(path, kind, text.strip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
