"""Every relative link leads to a file or heading that is there, and every page can be reached."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.architecture.source import assert_none
from tests.docs.pages import PROJECT, headings, links, name_of, pages

START = PROJECT / "README.md"
# Not for readers of the documentation: the notes of the next release are gathered by a tool.
APART = PROJECT / "changes"


def targets(page: Path) -> Iterator[tuple[int, str, Path, str]]:
    """Yield line, link, file and anchor of each relative link of a page."""
    for line, link in links(page.read_text("utf-8")):
        if "://" not in link and not link.startswith("mailto:"):
            file, _, anchor = unquote(link).partition("#")
            yield line, link, (page.parent / file).resolve() if file else page.resolve(), anchor


def broken(page: Path) -> Iterator[str]:
    """Yield one sentence for each link of a page that leads nowhere."""
    for line, link, file, anchor in targets(page):
        if not file.exists():
            yield f"{name_of(page)}:{line}: {link}: there is no such file"
        elif anchor and (file.suffix != ".md" or anchor not in headings(file.read_text("utf-8"))):
            yield f"{name_of(page)}:{line}: {link}: there is no such heading"


def reachable(start: Path) -> set[Path]:
    """Return the pages that links lead to from one page."""
    found, waiting = set[Path](), [start.resolve()]
    while waiting:
        page = waiting.pop()
        if page not in found and page.suffix == ".md" and page.exists():
            found.add(page)
            waiting += [file for _, _, file, _ in targets(page)]
    return found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_the_links_of_the_page_lead_somewhere(page: Path) -> None:
    assert_none(broken(page))


def test_every_page_can_be_reached_from_the_readme() -> None:
    wanted = {page for page in pages() if APART not in page.parents}
    assert_none(sorted(name_of(page) for page in wanted - reachable(START)))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("[x](other.md)", 0),
        ("[x](other.md#a-heading)", 0),
        ("[x](#here)\n\n# Here", 0),
        ("[x](https://example.com/gone.md)", 0),
        ("[x](gone.md)", 1),
        ("[x](other.md#gone)", 1),
        ("[x](#gone)", 1),
        ("[x][ref]\n\n[ref]: gone.md", 1),
    ],
)
def test_a_planted_broken_link_is_found(text: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A heading\n", "utf-8")
    (tmp_path / "page.md").write_text(text, "utf-8")
    assert len(list(broken(tmp_path / "page.md"))) == count


def test_a_planted_lonely_page_is_not_reachable(tmp_path: Path) -> None:
    for name, text in {"a.md": "[b](b.md)", "b.md": "[a](a.md)", "c.md": "[a](a.md)"}.items():
        (tmp_path / name).write_text(text, "utf-8")
    assert {page.name for page in reachable(tmp_path / "a.md")} == {"a.md", "b.md"}
