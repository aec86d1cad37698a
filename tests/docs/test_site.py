"""The site builds without warnings, its links resolve, it can be searched, nothing comes from elsewhere."""

import json
from pathlib import Path

import pytest

from tests.architecture.source import assert_none
from tests.docs.site_pages import broken, foreign, read_site
from tools.site import NotBuilt, build, main, menu, pages, pictures, turned

PLACES = {"docs/README.md": "index.md", "docs/how-to/a.md": "how-to/a.md", "README.md": "project/readme.md"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Give the whole documentation as HTML."""
    build(tmp_path / "site")
    return (tmp_path / "site").resolve()


def test_the_whole_site_is_there_resolves_and_comes_from_one_place(site: Path) -> None:
    """One test of all that is built: pages, pictures, links, search; several would build it several times."""
    built = read_site(site)
    for place in pages().values():
        assert (site / place).with_suffix(".html").exists(), place
    assert sum(len(page.links) for page in built.values()) > 1000
    assert_none(broken(site, built))
    assert_none(foreign(site, built))
    loaded = {(path.parent / link).resolve() for path, page in built.items() for link in page.loads}
    assert pictures()
    assert {(site / place).resolve() for place in pictures().values()} <= loaded
    index = json.loads((site / "search.json").read_text("utf-8"))
    found = {item["location"].partition("#")[0] for item in index["items"]}
    assert {place.replace(".md", ".html") for place in pages().values()} - {"index.html"} <= found


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        ('<a href="gone.html">', "no such file"),
        ('<a href="index.html#gone">', "no such anchor"),
        ('<a href="../../outside.html">', "no such file"),
        ('<script src="gone.js"></script>', "no such file"),
    ],
)
def test_a_planted_broken_link_is_found(planted: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<p id="here"><a href="#here"></a>', "utf-8")
    assert list(broken(tmp_path, read_site(tmp_path))) == []
    (tmp_path / "page.html").write_text(planted, "utf-8")
    assert [words in one for one in broken(tmp_path, read_site(tmp_path))] == [True]


@pytest.mark.parametrize(
    "planted",
    [
        '<link rel="stylesheet" href="https://fonts.example/css">',
        '<script src="//cdn.example/x.js"></script>',
        "<style>@import 'https://fonts.example/css'</style>",
    ],
)
def test_a_planted_foreign_file_is_found(planted: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f'<a href="https://example.org">{planted}', "utf-8")
    assert len(list(foreign(tmp_path, read_site(tmp_path)))) == 1


def test_links_are_turned_to_where_the_pages_are() -> None:
    code = "`[no](how-to/a.md)`\n```\n[no](how-to/a.md)\n```\n"
    text = f"[a](how-to/a.md#x) [up](../README.md) [code](../src/x.py) {code}"
    assert turned(text, "docs/README.md", PLACES) == f"[a](how-to/a.md#x) [up](project/readme.md) code {code}"
    assert turned("[back](../README.md#y)", "docs/how-to/a.md", PLACES) == "[back](../index.md#y)\n"


def test_the_menu_is_the_start_page_and_a_page_left_out_is_refused() -> None:
    text = "# Docs\n\n## How to\n\n- [An a](how-to/a.md): more\n\n## Project\n\n- [About](../README.md)\n"
    assert menu(text, PLACES) == [
        {"Start": [{"Documentation": "index.md"}]},
        {"How to": [{"An a": "how-to/a.md"}]},
        {"Project": [{"About": "project/readme.md"}]},
    ]
    with pytest.raises(NotBuilt, match=r"no list entry for how-to/a\.md"):
        menu("- [About](../README.md)\n", PLACES)


def test_a_folder_whose_index_is_listed_lists_its_pages_itself() -> None:
    archive = {f"docs/old/{name}.md": f"old/{place}.md" for name, place in [("README", "index"), ("b", "b")]}
    text = "## Old\n\n- [How to](how-to/a.md)\n- [About](../README.md)\n"
    assert menu(f"{text}- [Archive](old/README.md)\n", PLACES | archive)[1] == {
        "Old": [{"How to": "how-to/a.md"}, {"About": "project/readme.md"}, {"Archive": "old/index.md"}]
    }
    with pytest.raises(NotBuilt, match=r"no list entry for old/b\.md, old/index\.md"):
        menu(text, PLACES | archive)


def a_project(folder: Path, page: str) -> Path:
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "README.md").write_text("# Docs\n\n- [A](a.md)\n", "utf-8")
    (folder / "docs" / "a.md").write_text(page, "utf-8")
    return folder


def test_a_warning_of_the_generator_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotBuilt, match="gone"):
        build(tmp_path / "site", a_project(tmp_path, "# A\n\n[x](#gone)\n"))


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = a_project(tmp_path / "project", "# A\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", "utf-8")
    with pytest.raises(NotBuilt, match="holds something else"):
        build(tmp_path / "mine", project)
    assert (tmp_path / "mine" / "thesis.txt").exists()
    assert main(["--to", str(tmp_path / "mine")]) == 1
    assert "holds something else" in capsys.readouterr().err


def test_an_older_site_is_replaced_as_a_whole(tmp_path: Path) -> None:
    to = tmp_path / "site"
    to.mkdir()
    for name in ("search.json", "gone.html"):
        (to / name).write_text("", "utf-8")
    build(to, a_project(tmp_path, "# A\n"))
    assert (to / "a.html").exists()
    assert not (to / "gone.html").exists()
