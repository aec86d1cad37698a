"""A page that installs Penstock says where to get it. `tests/compat/test_install_lines.py` runs the lines."""

import re

from penstock.operate.doctor import EXTRAS
from tests.docs.install_lines import NOT_YET, all_lines, distributions, extras, install_lines
from tests.docs.pages import PROJECT, name_of


def test_a_page_that_installs_penstock_says_that_it_is_not_on_pypi_yet() -> None:
    lines = all_lines()
    assert lines
    for words, found in lines.items():
        for page in found:
            assert NOT_YET in " ".join(page.read_text("utf-8").split()), (
                f"{name_of(page)}: pip install {' '.join(words)}"
            )


def test_lines_are_found_in_blocks_and_in_sentences() -> None:
    text = "```bash\npip install 'penstock-outbox[a,b]' x  # more\n```\nOr `pip install .`, then pip install y.\n"
    assert install_lines(text) == [["penstock-outbox[a,b]", "x"], ["."], ["y"]]
    assert extras(("penstock-outbox[a,b]", "x")) == {"a", "b"}
    assert distributions(("penstock-outbox[a,b]", "x")) == {"x"}


def test_the_quickstart_names_every_extra() -> None:
    rows = [line for line in (PROJECT / "docs/quickstart.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == {extra.name for extra in EXTRAS}
