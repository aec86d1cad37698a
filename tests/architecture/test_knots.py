"""The imports have no knots, and the rule that says so finds what it must."""

from pathlib import Path

import pytest

from tests.architecture.knots import knots
from tests.architecture.source import ROOT, assert_none, plant

BACK = {  # imports of log/b.py in log/a.py, which log/b.py imports
    "absolute": "from penstock.log.b import B",
    "plain": "import penstock.log.b",
    "module": "from penstock.log import b",
    "relative": "from .b import B",
    "relative module": "from . import b",
    "lazy": "def f():\n    from .b import B",
    "type checking": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import B",
    "dynamic": "import_module('penstock.log.b')",
    "dynamic, relative": "import_module('.b', __package__)",
}
NO_KNOT = {
    "one way": {"log/a.py": "from .b import B", "log/b.py": ""},
    "package around it": {"log/__init__.py": "from .a import A", "log/a.py": "from .b import B", "log/b.py": ""},
    "brother of its package": {"log/__init__.py": "from .a import A", "log/a.py": "from . import b", "log/b.py": ""},
    "itself": {"log/a.py": "from penstock.log.a import A"},
    "outside": {"log/a.py": "import ast", "ast.py": "from penstock.log import a"},
}


def test_no_modules_import_each_other() -> None:
    assert_none(knots(ROOT))


@pytest.mark.parametrize("case", BACK, ids=str)
def test_a_planted_knot_is_found(case: str, tmp_path: Path) -> None:
    plant(tmp_path, "log/a.py", BACK[case])
    plant(tmp_path, "log/b.py", "from .a import A")
    assert list(knots(tmp_path)) == ["2 files import each other: log/a.py, log/b.py"]


def test_a_ring_of_several_rooms_is_one_knot(tmp_path: Path) -> None:
    plant(tmp_path, "log/a.py", "from penstock.model.b import B")
    plant(tmp_path, "model/b.py", "from penstock.wire.c import C")
    plant(tmp_path, "wire/c.py", "from penstock.log.a import A")
    plant(tmp_path, "cli/d.py", "from penstock.log.a import A")
    assert list(knots(tmp_path)) == ["3 files import each other: log/a.py, model/b.py, wire/c.py"]


def test_two_knots_are_two_sentences(tmp_path: Path) -> None:
    for room in ("log", "wire"):
        plant(tmp_path, f"{room}/a.py", "from .b import B")
        plant(tmp_path, f"{room}/b.py", "from .a import A")
    assert len(list(knots(tmp_path))) == 2


def test_a_module_that_needs_a_name_of_its_package_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "log/__init__.py", "def f():\n    from .a import A")
    plant(tmp_path, "log/a.py", "from . import f")
    assert list(knots(tmp_path)) == ["2 files import each other: log/__init__.py, log/a.py"]


def test_the_facade_counts(tmp_path: Path) -> None:
    plant(tmp_path, "__init__.py", "from penstock.log.a import A")
    plant(tmp_path, "log/a.py", "from penstock import A")
    assert list(knots(tmp_path)) == ["2 files import each other: __init__.py, log/a.py"]


@pytest.mark.parametrize("case", NO_KNOT, ids=str)
def test_what_is_no_knot_is_not_reported(case: str, tmp_path: Path) -> None:
    for file, text in NO_KNOT[case].items():
        plant(tmp_path, file, text)
    assert list(knots(tmp_path)) == []
