"""Write the reference pages from the code: `python -m tools.reference [--check]`.

The output depends on nothing but the code, so `--check` can compare: it names the first line that differs in
each page and exits with 1.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from penstock import settings
from tools.pages import PAGES
from tools.tree import import_everything

# Pages of the folder that people, or tests, write.
BY_HAND = {"access.md", "attacks.md", "files.md", "kafka-differences.md", "tinyq.md", "words.md"}
FOLDER = Path(__file__).parents[1] / "docs" / "reference"
_MARK = "<!-- Written by `python -m tools.reference` from the code. Do not edit: change the code instead. -->"


def written() -> dict[str, str]:
    """Return every page's name and its text as the code has it now."""
    import_everything()
    return {name: "\n\n".join([_MARK, *page()]) + "\n" for name, page in PAGES.items()}


def names_written() -> str:
    """Return the names of all settings, as the package keeps them for processes that import few rooms."""
    import_everything()
    return "".join(f"{one.path}\n" for one in settings.declared())


def drift(folder: Path) -> Iterator[str]:
    """Yield one sentence for each page that is not what the code says."""
    pages = written()
    for name, wanted in pages.items():
        path = folder / name
        if not path.exists():
            yield f"{name} is not there"
        elif (have := path.read_text("utf-8")) != wanted:
            yield f"{name}:{_first_difference(have, wanted)}"
    for path in sorted(folder.rglob("*.md")):
        if (name := path.relative_to(folder).as_posix()) not in pages.keys() | BY_HAND:
            yield f"{name} is not written by this tool; move it to another folder"
    if (have := settings.NAMES.read_text("utf-8")) != (wanted := names_written()):
        yield f"{settings.NAMES.name}:{_first_difference(have, wanted)}"


def main(args: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the pages, or compare them; return the exit code."""
    parser = argparse.ArgumentParser("python -m tools.reference", description="Write the reference pages.")
    parser.add_argument("--check", action="store_true", help="compare only; exit with 1 on a difference")
    if not parser.parse_args(args).check:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in written().items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        settings.NAMES.write_text(names_written(), "utf-8")
        return 0
    found = list(drift(folder))
    for sentence in found:
        print(sentence)
    if found:
        print("the reference pages have drifted from the code; run: python -m tools.reference")
    return 1 if found else 0


def _first_difference(have: str, wanted: str) -> str:
    pairs = zip_longest(have.split("\n"), wanted.split("\n"))
    number, pair = next((number, pair) for number, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return f"{number}: the page has {pair[0]!r}, the code says {pair[1]!r}"


if __name__ == "__main__":
    sys.exit(main())
