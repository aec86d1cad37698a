"""Every Python block of the documentation runs, page by page and from top to bottom.

The blocks of a page share one module, in a folder of their own. Only some kinds of block are known, so no
mark lets a block escape.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from penstock.settings import declared
from tests.architecture.source import assert_none
from tests.docs.pages import Block, blocks, blocks_of, name_of, pages
from tools.tree import import_everything

KINDS = {"python", "console", "bash", "toml", "yaml", "sql", "json", "text"}
ONCE_A_PROCESS = ("settings.configure(", "dictConfig(")  # Django's settings; a configuration of logging
SLOW = {"docs/how-to/test-your-handlers.md"}  # a whole run of the laboratory
WITH_PYTHON = [
    pytest.param(page, marks=pytest.mark.slow) if name_of(page) in SLOW else page
    for page in pages()
    if blocks_of(page, "python")
]


def unknown_kinds(found: list[Block]) -> list[str]:
    """Return what is wrong with the kinds of some blocks, a sentence each."""
    return [
        f"line {each.line - 1}: a block of kind {each.info!r}; known are {', '.join(sorted(KINDS))}"
        for each in found
        if each.info not in KINDS
    ]


def run_page(found: list[Block], name: str) -> None:
    """Run some blocks of a page in one module; a traceback shows the page's own lines."""
    module = ModuleType(re.sub(r"\W", "_", f"page {name}"))
    sys.modules[module.__name__] = module  # where dataclasses and msgspec look for names in annotations
    try:
        for each in found:
            code = "\n" * (each.line - 1) + each.text
            exec(compile(code, name, "exec", dont_inherit=True), vars(module))
    finally:
        del sys.modules[module.__name__]


def unknown_settings(text: str, known: set[tuple[str, str]]) -> Iterator[str]:
    """Yield each setting of a TOML block that does not exist."""
    for room, table in tomllib.loads(text).items():
        yield from (f"[{room}] {name}" for name in table if (room, name) not in known)


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_the_examples_of_the_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks_of(page, "python")
    if any(word in each.text for word in ONCE_A_PROCESS for each in found):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
            apart.submit(run_page, found, name_of(page)).result()
    else:
        run_page(found, name_of(page))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_is_of_a_known_kind(page: Path) -> None:
    assert_none(unknown_kinds(blocks_of(page)))


def test_every_yaml_block_can_be_read() -> None:
    shown = [each for page in pages() for each in blocks_of(page, "yaml")]
    assert shown
    assert all(isinstance(yaml.safe_load(each.text), dict) for each in shown)


def test_every_setting_in_a_settings_file_exists() -> None:
    import_everything()
    known = {(one.room, one.name) for one in declared()}
    shown = [(page, each) for page in pages() for each in blocks_of(page, "toml")]
    assert shown
    for page, each in shown:
        assert list(unknown_settings(each.text, known)) == [], f"{name_of(page)}:{each.line}"


@pytest.mark.parametrize("info", ["python no-run", "py", "pycon", "python3", "Python", "sh", "shell", ""])
def test_a_block_cannot_escape_by_its_mark(info: str) -> None:
    assert len(unknown_kinds(blocks(f"```{info}\nx = 1\n```\n"))) == 1


def test_a_planted_failing_example_is_found_with_its_line() -> None:
    page = "```python\nx = 1\n```\n\ntext\n\n```python\nassert x == 2\n```\n"
    with pytest.raises(AssertionError) as failed:
        run_page(blocks(page), "planted.md")
    assert failed.traceback[-1].lineno == 7
    assert "planted.md" in str(failed.traceback[-1].path)


def test_a_planted_unknown_setting_is_found() -> None:
    assert list(unknown_settings("[limits]\nevent_bytes = 1\n", {("limits", "event_bytes")})) == []
    assert list(unknown_settings("[limits]\nsize = 1\n", {("limits", "event_bytes")})) == ["[limits] size"]
