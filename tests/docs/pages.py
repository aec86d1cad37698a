"""Reading Markdown pages: fenced blocks, headings and links, with the line each stands on."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
_LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]: +<?([^\s>]+)>?")
_CODE = re.compile(r"(`+)(?!`)(.*?)(?<!`)\1(?!`)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: what stands behind the opening fence, its text, and the line of its first line."""

    info: str
    text: str
    line: int


def pages(project: Path = PROJECT) -> list[Path]:
    """Return every Markdown page of the project: at its root, in docs/, in changes/ and of the examples."""
    folders = ("*.md", "docs/**/*.md", "changes/*.md", "examples/*/README.md")
    return sorted(path for folder in folders for path in project.glob(folder))


def name_of(page: Path) -> str:
    """Return a page's path within the project, for messages and test ids."""
    return page.relative_to(PROJECT).as_posix() if page.is_relative_to(PROJECT) else page.name


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a text. Raises ValueError for one that is never closed."""
    return [block for block, _ in _parts(text) if block is not None]


def blocks_of(page: Path, *kinds: str) -> list[Block]:
    """Return the fenced blocks of a page, all or those of some kinds."""
    return [block for block in blocks(page.read_text("utf-8")) if not kinds or block.info in kinds]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of fenced blocks, with their numbers."""
    yield from (line for block, line in _parts(text) if block is None)


def headings(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    anchors = set()
    for _, line in prose(text):
        if match := _HEADING.match(line):
            plain = re.sub(r"[^\w\- ]", "", _LINK.sub("", match[1]).lower()).replace(" ", "-")
            anchors.add(plain if plain not in found else f"{plain}-{found[plain]}")
            found[plain] = found.get(plain, 0) + 1
    return anchors


def links(text: str) -> Iterator[tuple[int, str]]:
    """Yield the targets of a page's links, with the line; what stands in code is no link."""
    for number, line in prose(text):
        plain = _CODE.sub("`code`", line)
        for match in [*_LINK.finditer(plain), *_DEFINITION.finditer(plain)]:
            yield number, match[1]


def _parts(text: str) -> Iterator[tuple[Block | None, tuple[int, str]]]:
    fence, info, begun, inside = "", "", 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        match = _FENCE.match(line)
        if not fence:
            if match:
                fence, info, begun, inside = match[2], match[3].strip(), number, []
            else:
                yield None, (number, line)
        elif match and match[2].startswith(fence) and not match[3].strip():
            yield Block(info, "".join(f"{each}\n" for each in inside), begun + 1), (begun, "")
            fence = ""
        else:
            inside.append(line)
    if fence:
        raise ValueError(f"the block that begins in line {begun} is never closed")
